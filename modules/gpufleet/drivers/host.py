"""One host as the rules see it: its facts, what is wanted, the tables' entry for its system, its cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.drivers.cards import Found
from gpufleet.drivers.model import Facts, Reason, Wanted
from gpufleet.drivers.rule import because, refuse
from gpufleet.drivers.tables import systems

RHEL_IDS = ("rhel", "rocky", "almalinux", "centos", "ol")


@dataclass
class Host:
    """Facts, wishes and the table's entry; reasons gather here while the plan is made."""

    facts: Facts
    wanted: Wanted
    found: Found
    key: str
    system: Mapping[str, Any]
    reasons: list[Reason] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Return the system's name as people write it."""
        return str(self.system["title"])

    def because(self, code: str, **values: object) -> None:
        """Note a reason."""
        self.reasons.append(because(code, "", **values))

    def offered(self, name: str) -> tuple[str, ...]:
        """Return the versions of a package that the host's repositories offer."""
        return (self.facts.candidates or {}).get(name, ())


def system_key(facts: Facts) -> str:
    """Return the key of the tables for a host's system: debian-12, rhel-9."""
    major = facts.os_version.split(".")[0]
    if facts.raspberry or facts.os_id == "raspbian":
        return f"raspberrypi-{major}"
    if facts.os_id == "ubuntu":
        return f"ubuntu-{facts.os_version}"
    family = "rhel" if facts.os_id in RHEL_IDS else facts.os_id
    return f"{family}-{major}"


def system_of(facts: Facts) -> tuple[str, Mapping[str, Any]]:
    """Return the tables' entry of a host's system, or refuse it with those that are known."""
    key = system_key(facts)
    known = systems()
    if key not in known:
        raise refuse("system.unknown", system=f"{facts.os_id} {facts.os_version}", known=", ".join(known))
    return key, known[key]


def describe(facts: Facts) -> dict[str, object]:
    """Return the plan's account of the system."""
    return {
        "id": facts.os_id,
        "version": facts.os_version,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "secure_boot": facts.secure_boot,
    }

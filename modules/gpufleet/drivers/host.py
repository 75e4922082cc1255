"""One host as the rules see it: its facts, what is wanted, the tables' entry for its system, its cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.drivers.detection import DetectedCards
from gpufleet.drivers.model import HostFacts, Reason, RequestedSoftware
from gpufleet.drivers.rule import build_reason, build_refusal
from gpufleet.drivers.table import load_systems

RHEL_IDS = ("rhel", "rocky", "almalinux", "centos", "ol")


@dataclass
class HostContext:
    """Facts, wishes and the table's entry; reasons gather here while the plan is made."""

    facts: HostFacts
    requested: RequestedSoftware
    detected: DetectedCards
    key: str
    system: Mapping[str, Any]
    reasons: list[Reason] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Return the system's name as people write it."""
        return str(self.system["title"])

    def add_reason(self, code: str, **values: object) -> None:
        """Note a reason."""
        self.reasons.append(build_reason(code, "", **values))

    def offered_versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a package that the host's repositories offer."""
        return (self.facts.candidates or {}).get(name, ())


def system_key(facts: HostFacts) -> str:
    """Return the key of the tables for a host's system: debian-12, rhel-9."""
    major = facts.os_version.split(".")[0]
    if facts.raspberry or facts.os_id == "raspbian":
        return f"raspberrypi-{major}"
    if facts.os_id == "ubuntu":
        return f"ubuntu-{facts.os_version}"
    family = "rhel" if facts.os_id in RHEL_IDS else facts.os_id
    return f"{family}-{major}"


def find_system(facts: HostFacts) -> tuple[str, Mapping[str, Any]]:
    """Return the tables' entry of a host's system, or refuse it with those that are known."""
    key = system_key(facts)
    systems = load_systems()
    if key not in systems:
        raise build_refusal(
            "system.unknown", system=f"{facts.os_id} {facts.os_version}", known=", ".join(systems)
        )
    return key, systems[key]


def describe_system(facts: HostFacts) -> dict[str, object]:
    """Return the plan's account of the system."""
    return {
        "id": facts.os_id,
        "version": facts.os_version,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "secure_boot": facts.secure_boot,
    }

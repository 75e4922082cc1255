"""The context of a plan: facts, requested software, package table of the system, detected cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.drivers.data_file import load_systems
from gpufleet.drivers.detection import DetectedCards
from gpufleet.drivers.driver_plan import HostFacts, Reason, RequestedSoftware
from gpufleet.drivers.rule import build_reason, build_refusal

RHEL_IDS = ("rhel", "rocky", "almalinux", "centos", "ol")


@dataclass
class HostContext:
    """Input of a plan for one host; ``reasons`` collects the reasons while planning."""

    facts: HostFacts
    requested: RequestedSoftware
    detected: DetectedCards
    key: str
    system: Mapping[str, Any]
    reasons: list[Reason] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Return the title of the system."""
        return str(self.system["title"])

    def add_reason(self, code: str, **values: object) -> None:
        """Add the reason of this code."""
        self.reasons.append(build_reason(code, "", **values))

    def offered_versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a package that the host's repositories offer."""
        return (self.facts.candidates or {}).get(name, ())


def system_key(facts: HostFacts) -> str:
    """Return the key of a host's system: debian-12, rhel-9."""
    major = facts.os_version.split(".")[0]
    if facts.raspberry or facts.os_id == "raspbian":
        return f"raspberrypi-{major}"
    if facts.os_id == "ubuntu":
        return f"ubuntu-{facts.os_version}"
    family = "rhel" if facts.os_id in RHEL_IDS else facts.os_id
    return f"{family}-{major}"


def find_system(facts: HostFacts) -> tuple[str, Mapping[str, Any]]:
    """Return key and package table of a host's system; raise PlanRefused if it is unknown."""
    key = system_key(facts)
    systems = load_systems()
    if key not in systems:
        raise build_refusal(
            "system.unknown", system=f"{facts.os_id} {facts.os_version}", known=", ".join(systems)
        )
    return key, systems[key]


def describe_system(facts: HostFacts) -> dict[str, object]:
    """Return the system as part of the plan's JSON."""
    return {
        "id": facts.os_id,
        "version": facts.os_version,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "secure_boot": facts.secure_boot,
    }

"""The context of a plan: facts, requested software, package table of the system, detected cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.catalog import find_driver_operating_system, load_operating_systems
from gpufleet.drivers.data_file import load_system_package_tables
from gpufleet.drivers.detection import DetectedCards
from gpufleet.drivers.driver_plan import HostFacts, PlanReason, RequestedSoftware
from gpufleet.drivers.rule import build_plan_reason, build_refusal_error

ENTERPRISE_LINUX = ("rhel", "rocky", "almalinux", "centos", "ol")


@dataclass
class HostPlanContext:
    """Input of a plan for one host; ``reasons`` collects the reasons while planning."""

    facts: HostFacts
    requested: RequestedSoftware
    detected: DetectedCards
    key: str
    system: Mapping[str, Any]
    reasons: list[PlanReason] = field(default_factory=list)

    @property
    def system_title(self) -> str:
        """Return the title of the system."""
        return load_operating_systems()[self.key].title

    @property
    def is_raspberry_pi_os(self) -> bool:
        """True if the host runs Raspberry Pi OS."""
        return load_operating_systems()[self.key].distribution == "raspberry-pi-os"

    def add_plan_reason(self, code: str, **values: object) -> None:
        """Add the reason of this code."""
        self.reasons.append(build_plan_reason(code, "", **values))

    def offered_package_versions(self, package_name: str) -> tuple[str, ...]:
        """Return the versions of a package that the host's repositories offer."""
        return (self.facts.candidates or {}).get(package_name, ())


def find_system_package_table(facts: HostFacts) -> tuple[str, Mapping[str, Any]]:
    """Return key and package table of a host's system; raise PlanRefusedError if it is unknown."""
    operating_system = find_driver_operating_system(
        "raspberry-pi-os" if facts.raspberry else facts.os_id, facts.os_version
    )
    systems = load_system_package_tables()
    if facts.os_id in ENTERPRISE_LINUX and facts.os_version.partition(".")[0] == "8":
        raise build_refusal_error("system.python", system=f"{facts.os_id} {facts.os_version}")
    if operating_system is None or operating_system.name not in systems:
        raise build_refusal_error(
            "system.unknown", system=f"{facts.os_id} {facts.os_version}", known=", ".join(systems)
        )
    return operating_system.name, systems[operating_system.name]


def describe_operating_system(facts: HostFacts) -> dict[str, object]:
    """Return the system as part of the plan's JSON."""
    return {
        "id": facts.os_id,
        "version": facts.os_version,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "secure_boot": facts.secure_boot,
    }

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

DEBIAN_ON_PI = ("debian", "raspbian", "raspberry-pi-os")
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
    def distribution(self) -> str:
        """Return the distribution of the system: debian, ubuntu, raspberry-pi-os."""
        return load_operating_systems()[self.key].distribution

    @property
    def has_vendor_packages(self) -> bool:
        """True if NVIDIA's repository has packages for the system and the machine's architecture."""
        return self.facts.arch in self.system.get("nvidia", {}).get("vendor", {}).get("arch", ())

    def add_plan_reason(self, code: str, **values: object) -> None:
        """Add the reason of this code."""
        self.add_sourced_reason(code, "", **values)

    def add_sourced_reason(self, code: str, source_id: str, **values: object) -> None:
        """Add the reason of this code with the source of its row of data."""
        self.reasons.append(build_plan_reason(code, source_id, **values))

    def offered_package_versions(self, package_name: str) -> tuple[str, ...]:
        """Return the versions of a package that the host's repositories offer."""
        return (self.facts.candidates or {}).get(package_name, ())

    def is_offered(self, package_name: str) -> bool:
        """Return whether the repositories offer a package; True if the host did not report what they offer."""
        return self.facts.candidates is None or bool(self.offered_package_versions(package_name))


def find_system_package_table(facts: HostFacts) -> tuple[str, Mapping[str, Any]]:
    """Return key and package table of a host's system; raise PlanRefusedError if it is unknown."""
    # Raspberry Pi OS calls itself Debian; another system on a Pi is itself.
    is_pi_os = facts.raspberry and facts.os_id in DEBIAN_ON_PI
    operating_system = find_driver_operating_system(
        "raspberry-pi-os" if is_pi_os else facts.os_id, facts.os_version
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

"""What the planner would install: every machine of tests/cases/drivers, planned on every system."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers

CASES = Path(__file__).resolve().parents[1] / "cases" / "drivers"
CLASSES = {"10de": "030200", "1002": "120000", "1a03": "030000"}
NVSWITCHES = ("10de:1af1", "10de:22a3")


@dataclasses.dataclass(frozen=True)
class System:
    """A system to ask: its name for the planner, a kernel of its own, its container image."""

    name: str
    identifier: str
    version: str
    kernel: str
    image: str
    suite: str = ""

    @property
    def uses_apt(self) -> bool:
        return self.identifier in ("debian", "ubuntu")


# Images: the publishers' own names on Docker Hub. A plan needs a kernel of the system's flavour; its number is not
# used, because headers of a running kernel are left out.
SYSTEMS = (
    System("debian-12", "debian", "12", "6.1.0-50-amd64", "docker.io/library/debian:12", "bookworm"),
    System("debian-13", "debian", "13", "6.12.0-1-amd64", "docker.io/library/debian:13", "trixie"),
    System(
        "ubuntu-22.04", "ubuntu", "22.04", "5.15.0-100-generic", "docker.io/library/ubuntu:22.04", "jammy"
    ),
    System("ubuntu-24.04", "ubuntu", "24.04", "6.8.0-55-generic", "docker.io/library/ubuntu:24.04", "noble"),
    System(
        "ubuntu-26.04", "ubuntu", "26.04", "7.0.0-10-generic", "docker.io/library/ubuntu:26.04", "resolute"
    ),
    System("rocky-9", "rocky", "9.4", "5.14.0-503.el9_5.x86_64", "docker.io/rockylinux/rockylinux:9"),
    System("rocky-10", "rocky", "10.0", "6.12.0-55.el10_0.x86_64", "docker.io/rockylinux/rockylinux:10"),
    System("alma-9", "almalinux", "9.4", "5.14.0-503.el9_5.x86_64", "docker.io/library/almalinux:9"),
)


@dataclasses.dataclass(frozen=True)
class PackageSet:
    """What one or more machines get on a system: packages, and what must be enabled first."""

    system: System
    cases: tuple[str, ...]
    packages: tuple[str, ...]
    repositories: tuple[dict[str, Any], ...]
    streams: tuple[str, ...]
    prerequisites: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the first packages and machines, for one line of a report."""
        more = f" (+{len(self.packages) - 3})" if len(self.packages) > 3 else ""
        others = f" and {len(self.cases) - 1} more" if len(self.cases) > 1 else ""
        return f"{' '.join(self.packages[:3])}{more}; {self.cases[0]}{others}"


def _list_pci_functions(case: dict[str, Any]) -> list[dict[str, str]]:
    identifiers = [pci for pci, count in case["cards"].items() for _ in range(count)]
    classes = case.get("classes", {})
    return [
        {
            "address": f"0000:{number:02x}:00.0",
            "vendor": pci[:4],
            "device": pci[5:],
            "class": classes.get(pci) or ("068000" if pci in NVSWITCHES else CLASSES.get(pci[:4], "030000")),
            "subsystem": case.get("subsystem", ""),
        }
        for number, pci in enumerate(identifiers)
    ]


def plan_case(case: dict[str, Any], system: System) -> dict[str, Any]:
    """Return the plan of a case's machine on a system, on a first visit: nothing installed, no package lists read."""
    facts = {
        "pci": _list_pci_functions(case),
        "os": {"id": system.identifier, "version_id": system.version},
        "date": "2026-11-22",
        "kernel": system.kernel,
        "arch": "x86_64",
        "candidates": None,
    }
    plan = plan_drivers(HostFacts.from_json(facts), RequestedSoftware.from_json(case.get("wanted")))
    return plan.as_json()


def _list_package_names(plan: dict[str, Any]) -> list[str]:
    """Return the plan's packages without versions, which no list was read for, and without a kernel's headers."""
    parts = [plan["packages"]]
    parts += [plan[part]["packages"] for part in ("fabric_manager", "cuda", "rocm") if plan[part]]
    return sorted({package["name"] for part in parts for package in part})


def collect_package_sets(system: System) -> tuple[list[PackageSet], dict[str, int]]:
    """Return the distinct package sets of a system, and how often the planner refused, by the code of the reason."""
    machines: dict[str, list[str]] = {}
    refusals: dict[str, int] = {}
    for name, case in _read_cases():
        plan = plan_case(case, system)
        if plan["action"] == "refuse":
            code = plan["refusal"]["code"]
            refusals[code] = refusals.get(code, 0) + 1
        elif names := _list_package_names(plan):
            parts = [names, plan["repositories"], plan["streams"], plan["prerequisites"]]
            machines.setdefault(json.dumps(parts, sort_keys=True), []).append(name)
    sets = []
    for key, cases in machines.items():
        packages, repositories, streams, prerequisites = json.loads(key)
        sets.append(
            PackageSet(
                system,
                tuple(cases),
                tuple(packages),
                tuple(repositories),
                tuple(streams),
                tuple(prerequisites),
            )
        )
    return sets, refusals


def _read_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(CASES.glob("*.yaml")):
        case = yaml.safe_load(path.read_text())
        if path.stem != "offers" and case.get("arch", "x86_64") == "x86_64":
            yield path.stem, case

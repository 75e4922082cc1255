"""Read the installed driver: version, origin, kernel module and fabric manager."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpufleet.drivers.data_file import load_yaml_document
from gpufleet.drivers.driver_plan import HostFacts
from gpufleet.drivers.version import find_newest_version, parse_driver_branch, parse_upstream_version

DRIVER_PARTS = ("driver", "library", "pin")
MIN_BRANCH = (
    300  # a package of kernel modules carries the kernel's version; every driver since 2012 is above this
)


@dataclass(frozen=True)
class InstalledDriverPackage:
    """One installed package of the driver, with the properties in its name."""

    name: str
    version: str
    part: str
    origin: str | None
    module: str | None
    branch: int | None


@dataclass(frozen=True)
class InstalledDriver:
    """NVIDIA's driver on the host. ``version`` is NVIDIA's; None if no package is installed."""

    packages: tuple[InstalledDriverPackage, ...] = ()
    version: str | None = None
    origin: str | None = None
    module: str | None = None
    fabric: str | None = None
    loaded: str | None = None
    nouveau: bool = False

    @property
    def branch_number(self) -> int | None:
        """Return the branch of the installed driver, else of the loaded one."""
        version = self.version or self.loaded
        return parse_driver_branch(version) if version else None

    @property
    def is_unpackaged(self) -> bool:
        """True if the loaded driver belongs to no package: it came from a runfile or an image."""
        return self.version is None and self.loaded is not None


def read_installed_driver(facts: HostFacts, distribution_branches: tuple[int, ...]) -> InstalledDriver:
    """Return the installed driver from the facts."""
    packages = tuple(
        package
        for name, version in facts.packages.items()
        if (package := classify_driver_package(name, version))
    )
    driver_packages = [package for package in packages if package.part in DRIVER_PARTS]
    version = _find_version(driver_packages)
    fabric_version = find_newest_version(
        package.version for package in packages if package.part == "fabric" and package.name != "nvlsm"
    )
    return InstalledDriver(
        packages=packages,
        version=version,
        origin=_find_origin(driver_packages, version, distribution_branches),
        module=next((package.module for package in driver_packages if package.module), None),
        fabric=parse_upstream_version(fabric_version) if fabric_version else None,
        loaded=facts.loaded.get("nvidia"),
        nouveau="nouveau" in facts.loaded,
    )


def classify_driver_package(name: str, version: str) -> InstalledDriverPackage | None:
    """Return the properties of a driver package, None for other packages."""
    for pattern, row in _load_families():
        if pattern.search(name):
            number = re.search(r"-(\d{3})(?:-|$)", name)
            return InstalledDriverPackage(
                name,
                version,
                row.get("part", "driver"),
                row.get("origin"),
                row.get("module"),
                int(number.group(1)) if number else None,
            )
    return None


def find_conflicting_packages(
    packages: tuple[InstalledDriverPackage, ...], origin: str, module: str, branch: int
) -> tuple[str, ...]:
    """Return the installed packages to remove before a driver of this origin, module and branch."""
    return tuple(
        sorted(
            package.name
            for package in packages
            if package.part in (*DRIVER_PARTS, "fabric")
            and (
                package.origin not in (None, origin)
                or package.module not in (None, module)
                or package.branch not in (None, branch)
            )
        )
    )


def _find_version(driver_packages: list[InstalledDriverPackage]) -> str | None:
    versions = [
        parse_upstream_version(version.version) for version in driver_packages if version.part != "pin"
    ]
    return find_newest_version(
        version for version in versions if (parse_driver_branch(version) or 0) >= MIN_BRANCH
    )


def _find_origin(
    driver_packages: list[InstalledDriverPackage], version: str | None, distribution_branches: tuple[int, ...]
) -> str | None:
    named_origin = next((package.origin for package in driver_packages if package.origin), None)
    if named_origin or version is None:
        return named_origin
    return "distribution" if parse_driver_branch(version) in distribution_branches else "vendor"


@cache
def _load_families() -> tuple[tuple[re.Pattern[str], Mapping[str, str]], ...]:
    return tuple((re.compile(row["match"]), row) for row in load_yaml_document("families.yaml")["packages"])

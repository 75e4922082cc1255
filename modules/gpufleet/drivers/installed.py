"""What a host has already: which driver, from where, which kind of module, which fabric manager."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpufleet.drivers.model import Facts
from gpufleet.drivers.tables import document
from gpufleet.drivers.versions import branch_of, newest, upstream

DRIVER_PARTS = ("driver", "library", "pin")
LEAST_BRANCH = (
    300  # a package of kernel modules carries the kernel's version; every driver since 2012 is above this
)


@dataclass(frozen=True)
class Member:
    """One installed package of the driver's family and what its name says."""

    name: str
    version: str
    part: str
    origin: str | None
    module: str | None
    branch: int | None


@dataclass(frozen=True)
class Installed:
    """NVIDIA's driver as it is on the host. ``version`` is the maker's; None: no package of it."""

    members: tuple[Member, ...] = ()
    version: str | None = None
    origin: str | None = None
    module: str | None = None
    fabric: str | None = None
    loaded: str | None = None
    nouveau: bool = False

    @property
    def branch(self) -> int | None:
        """Return the branch of what is installed, or else loaded."""
        version = self.version or self.loaded
        return branch_of(version) if version else None

    @property
    def unmanaged(self) -> bool:
        """Tell whether a driver is loaded that no package brought: a runfile's or an image's."""
        return self.version is None and self.loaded is not None


def read(facts: Facts, distribution_branches: tuple[int, ...]) -> Installed:
    """Read the installed driver out of the facts."""
    members = tuple(found for name, version in facts.packages.items() if (found := member(name, version)))
    driver = [each for each in members if each.part in DRIVER_PARTS]
    version = _version(driver)
    fabric = newest(each.version for each in members if each.part == "fabric" and each.name != "nvlsm")
    return Installed(
        members=members,
        version=version,
        origin=_origin(driver, version, distribution_branches),
        module=next((each.module for each in driver if each.module), None),
        fabric=upstream(fabric) if fabric else None,
        loaded=facts.loaded.get("nvidia"),
        nouveau="nouveau" in facts.loaded,
    )


def member(name: str, version: str) -> Member | None:
    """Return what a package's name says, None where it is not of the family."""
    for pattern, row in _families():
        if pattern.search(name):
            number = re.search(r"-(\d{3})(?:-|$)", name)
            return Member(
                name,
                version,
                row.get("part", "driver"),
                row.get("origin"),
                row.get("module"),
                int(number.group(1)) if number else None,
            )
    return None


def conflicting(members: tuple[Member, ...], origin: str, module: str, branch: int) -> tuple[str, ...]:
    """Return the installed packages that must go before a driver of this origin, kind and branch comes."""
    return tuple(
        sorted(
            each.name
            for each in members
            if each.part in (*DRIVER_PARTS, "fabric")
            and (
                each.origin not in (None, origin)
                or each.module not in (None, module)
                or each.branch not in (None, branch)
            )
        )
    )


def _version(driver: list[Member]) -> str | None:
    versions = [upstream(each.version) for each in driver if each.part != "pin"]
    return newest(each for each in versions if (branch_of(each) or 0) >= LEAST_BRANCH)


def _origin(driver: list[Member], version: str | None, own: tuple[int, ...]) -> str | None:
    said = next((each.origin for each in driver if each.origin), None)
    if said or version is None:
        return said
    return "distribution" if branch_of(version) in own else "vendor"


@cache
def _families() -> tuple[tuple[re.Pattern[str], Mapping[str, str]], ...]:
    return tuple((re.compile(row["match"]), row) for row in document("families.yaml")["packages"])

"""The one table of operating systems that gpufleet configures.

The roles, their metadata and the driver planner read it. docs/architecture.md, "Adding an operating system", has
the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpufleet.boundary import read_table
from gpufleet.catalog.data_file import PACKAGE


@dataclass(frozen=True)
class OperatingSystem:
    """One operating system. ``name`` is used in data files, plans and messages; ``title`` in sentences.

    ``os_release`` lists ID-VERSION_ID of /etc/os-release, for RHEL and Debian without the minor version. Only the
    driver planner and the driver roles also accept those of ``driver_os_release``. ``platform`` is Ansible Galaxy's
    name, empty where Galaxy has none. ``role_groups`` names the groups of roles that support the system.
    """

    name: str
    title: str
    family: str  # debian or redhat: the package manager and the places of files
    distribution: str
    codename: str
    os_release: tuple[str, ...]
    driver_os_release: tuple[str, ...]
    platform: str
    platform_version: str
    role_groups: frozenset[str]


@cache
def load_operating_systems() -> dict[str, OperatingSystem]:
    """Return every operating system by name."""
    systems = read_table(OperatingSystem, PACKAGE, "data/operating_systems.csv")
    return {system.name: system for system in systems}


def find_driver_operating_system(os_id: str, os_version: str) -> OperatingSystem | None:
    """Return the system that a driver can be planned for, from ID and VERSION_ID of /etc/os-release.

    None if the table does not have it. A Raspberry Pi OS that calls itself Debian is ``raspberry-pi-os`` here.
    """
    keys = {f"{os_id}-{os_version}", f"{os_id}-{os_version.partition('.')[0]}"}
    for system in load_operating_systems().values():
        if keys & {*system.os_release, *system.driver_os_release}:
            return system
    return None

"""Test the table of operating systems: consistent, and complete for the driver planner."""

from __future__ import annotations

from collections import Counter

import pytest

from gpufleet.catalog import find_driver_operating_system, load_operating_systems
from gpufleet.drivers import HostFacts
from gpufleet.drivers.data_file import load_system_package_tables
from gpufleet.drivers.host import find_system_package_table
from gpufleet.drivers.rule import PlanRefusedError

SYSTEMS = load_operating_systems()


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=lambda system: system.name)
def test_a_system_is_described_completely(system):
    assert system.family in {"debian", "redhat"}
    assert system.title
    assert system.role_groups
    assert system.name in system.os_release
    assert bool(system.codename) == (system.family == "debian")
    has_platform = system.distribution not in (
        "raspberry-pi-os",
        "amazon-linux",
    )  # Galaxy has no name for these
    assert bool(system.platform) == bool(system.platform_version) == has_platform


def test_an_os_release_names_one_system():
    counts = Counter(
        key for system in SYSTEMS.values() for key in (*system.os_release, *system.driver_os_release)
    )
    assert [key for key, count in counts.items() if count > 1] == []


def list_planned_vendors():
    return {
        (name, vendor)
        for name, row in load_system_package_tables().items()
        for vendor in ("nvidia", "amd")
        if row.get(vendor)
    }


def test_driver_planner_has_data_exactly_for_systems_with_driver_roles():
    systems = {
        (system.name, vendor)
        for system in SYSTEMS.values()
        for vendor in system.role_groups & {"nvidia", "amd"}
    }
    assert list_planned_vendors() == systems


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=lambda system: system.name)
def test_driver_planner_knows_a_system_or_refuses_it(system):
    os_id, _, os_version = system.os_release[0].rpartition("-")
    facts = HostFacts((), os_id, os_version, kernel="6.1.0-18-amd64", arch="x86_64")
    if system.name in {name for name, _ in list_planned_vendors()}:
        assert find_system_package_table(facts)[0] == system.name
    else:
        with pytest.raises(PlanRefusedError, match=os_version):
            find_system_package_table(facts)


@pytest.mark.parametrize(
    ("os_id", "version", "name"),
    [
        ("ubuntu", "24.04", "ubuntu-24.04"),
        ("centos", "9", "rhel-9"),
        ("ol", "9.6", "rhel-9"),
        ("raspbian", "12", "raspberry-pi-os-12"),
        ("raspberry-pi-os", "13", "raspberry-pi-os-13"),
        ("amzn", "2023", "amazon-linux-2023"),
        ("amzn", "2", None),
        ("debian", "13", "debian-13"),
        ("debian", "14", None),
        ("ubuntu", "26.04", "ubuntu-26.04"),
        ("rocky", "10.1", "rhel-10"),
        ("ubuntu", "24", None),
    ],
)
def test_system_is_found_from_os_release(os_id, version, name):
    system = find_driver_operating_system(os_id, version)
    assert (system.name if system else None) == name

"""Operating systems and roles: each role has values for exactly the systems that the one table says it supports."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ansible_collections.gpufleet.fleet.plugins.plugin_utils import system_data
from gpufleet.catalog import load_operating_systems
from gpufleet.errors import InputError
from gpufleet.nodes.first_boot import firmware
from tools import role_platforms

FLEET = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet"
ROLES = sorted(path for path in (FLEET / "roles").iterdir() if path.is_dir())
SYSTEM_FILES = sorted(FLEET.glob("roles/*/systems.yml"))
# Values that a role can do without; it says so itself where one is missing.
OPTIONAL = {"ib_tools_system_doca", "container_toolkit_repositories.amd"}


def list_keys(values, prefix=""):
    """Return the path of every key, without those below an optional one."""
    keys = set()
    for key, value in values.items():
        path = f"{prefix}{key}"
        if path not in OPTIONAL:
            keys.add(path)
            keys |= list_keys(value, f"{path}.") if isinstance(value, Mapping) else set()
    return keys


def test_every_role_is_in_one_group():
    grouped = [role for roles in system_data.ROLE_GROUPS.values() for role in roles]
    assert sorted(grouped) == [path.name for path in ROLES]


def test_systems_name_known_groups():
    named = {group for system in load_operating_systems().values() for group in system.role_groups}
    assert named == set(system_data.ROLE_GROUPS)


@pytest.mark.parametrize("system", load_operating_systems())
@pytest.mark.parametrize("path", SYSTEM_FILES, ids=lambda path: path.parent.name)
def test_role_knows_a_system_or_refuses_it(path, system):
    if system in {supported.name for supported in system_data.list_supported_systems(path.parent.name)}:
        assert system_data.read_role_system_values(path, system)
    else:
        with pytest.raises(InputError, match=f"does not support the system {system}"):
            system_data.read_role_system_values(path, system)


@pytest.mark.parametrize("path", SYSTEM_FILES, ids=lambda path: path.parent.name)
def test_systems_of_a_family_have_the_same_keys(path):
    """A value that differs by release, such as the version of podman, cannot be forgotten for a new system."""
    keys_by_family = {}
    for system in system_data.list_supported_systems(path.parent.name):
        keys = list_keys(system_data.read_role_system_values(path, system.name))
        assert keys == keys_by_family.setdefault(system.family, keys), system.name


@pytest.mark.parametrize("path", SYSTEM_FILES, ids=lambda path: path.parent.name)
def test_file_has_no_system_that_the_role_does_not_support(path):
    named = YAML(typ="safe").load(path.read_text()).get("systems", {})
    supported = {system.name for system in system_data.list_supported_systems(path.parent.name)}
    assert set(named) <= supported


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_platforms_are_current(role):
    text = (role / "meta/main.yml").read_text()
    assert text == role_platforms.update_metadata(role), "run python -m tools.role_platforms"


def test_platforms_of_a_role_are_those_that_it_supports():
    platforms = {
        role.name: {
            (entry["name"], version)
            for entry in YAML(typ="safe").load(role / "meta/main.yml")["galaxy_info"]["platforms"]
            for version in entry["versions"]
        }
        for role in ROLES
    }
    assert platforms["blade"] == {("Debian", "bookworm"), ("Debian", "trixie")}
    assert ("EL", "10") in platforms["nvidia_driver"]
    for role in ("burn_in", "users_and_access", "wipe", "common"):
        assert ("Ubuntu", "noble") in platforms[role]
        assert ("EL", "8") not in platforms[role]


def test_pi_image_with_cloud_init_is_a_supported_system():
    """Raspberry Pi OS has cloud-init since October 2025, on Debian 13: the export needs it, the roles take it."""
    first = firmware.load_data_table("families")["raspios"]["first_version"]
    assert f"raspberry-pi-os-{first}" in {
        system.name for system in system_data.list_supported_systems("system")
    }


@pytest.mark.parametrize("system", ["debian-13", "ubuntu-26.04"])
def test_withdrawn_key_is_removed_without_apt_key(tmp_path, system):
    """The command is the role's own, on another folder."""
    values = system_data.read_role_system_values(FLEET / "roles/nvidia_driver/systems.yml", system)
    assert "/etc/apt/trusted.gpg.d" in values["key_tool"]
    for name, content in {"cuda.gpg": b"\x99\x7f\xa2\xaf\x80\xff", "other.gpg": b"\x99\xff"}.items():
        (tmp_path / name).write_bytes(content)
    command = [str(tmp_path) if part.startswith("/etc") else part for part in values["key_tool"]]
    subprocess.run(command, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["other.gpg"]


def test_new_release_needs_values_only_where_releases_differ(monkeypatch):
    """A row of the table and nothing else: docs/architecture.md, "Adding an operating system", has the other files."""
    systems = load_operating_systems()
    new = replace(systems["ubuntu-24.04"], name="ubuntu-99.04", codename="toy", os_release=("ubuntu-99.04",))
    monkeypatch.setattr(system_data, "load_operating_systems", lambda: systems | {new.name: new})
    system_data._read_sections.cache_clear()
    missing = {
        path.parent.name: keys
        for path in SYSTEM_FILES
        if (
            keys := list_keys(system_data.read_role_system_values(path, "ubuntu-24.04"))
            - list_keys(system_data.read_role_system_values(path, "ubuntu-99.04"))
        )
    }
    system_data._read_sections.cache_clear()
    assert missing == {
        "container_engine": {"container_engine_docker.vendor.repositories", "container_engine_podman.version"}
    }

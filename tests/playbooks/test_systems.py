"""The data files of the systems: each system that is promised has one in every role that another system has one in."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpufleet.nodes.first_boot import firmware

ROLES = Path(__file__).parents[2] / "playbooks/roles"
BASE = sorted(path.parents[1] for path in ROLES.glob("*/vars/raspberry-pi-os-12.yml"))


def read(path):
    return YAML(typ="safe").load(path.read_text())


@pytest.fixture(scope="module")
def systems():
    """Give ID-VERSION of os-release by data file, as role system has them."""
    return read(ROLES / "system/vars/main.yml")["system_table"]


@pytest.mark.parametrize("role", BASE, ids=lambda path: path.name)
def test_every_system_has_its_data(role, systems):
    missing = {name for name in systems.values() if not (role / f"vars/{name}.yml").is_file()}
    assert missing == set()


@pytest.mark.parametrize("role", BASE, ids=lambda path: path.name)
def test_two_releases_of_a_system_have_the_same_keys(role):
    before, after = (read(role / f"vars/raspberry-pi-os-{release}.yml") for release in (12, 13))
    assert set(before) == set(after)


def test_pi_image_with_cloud_init_is_a_supported_system(systems):
    """Raspberry Pi OS has cloud-init since October 2025, on Debian 13: the export needs it, the roles take it."""
    first = firmware.load_table("families")["raspios"]["first_version"]
    assert f"raspberry-pi-os-{first}" in systems

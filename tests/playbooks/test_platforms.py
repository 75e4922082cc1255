"""The platforms in each role's metadata: one table of systems decides them."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROLES = Path(__file__).parents[2] / "playbooks/roles"
# System to its name and release in Ansible Galaxy's terms. Raspberry Pi OS is Debian there.
PLATFORMS = {
    "debian-12": ("Debian", "bookworm"),
    "ubuntu-22.04": ("Ubuntu", "jammy"),
    "ubuntu-24.04": ("Ubuntu", "noble"),
    "rhel-9": ("EL", "9"),
}
BLADES_ONLY = {("Debian", "bookworm")}


def read(path):
    return YAML(typ="safe").load(path.read_text())


def test_system_table_names_every_system_that_the_roles_configure():
    supported = set(read(ROLES / "system/vars/main.yml")["system_table"].values())
    assert {name for name in supported if not name.startswith("raspberry-pi-os")} == set(PLATFORMS)


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir() if path.is_dir()))
def test_role_lists_the_platforms_of_the_table(role):
    listed = read(ROLES / role / "meta/main.yml")["galaxy_info"]["platforms"]
    expected = BLADES_ONLY if role == "blade" else set(PLATFORMS.values())
    assert {(entry["name"], release) for entry in listed for release in entry["versions"]} == expected

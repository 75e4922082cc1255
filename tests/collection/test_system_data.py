"""A role's values for one operating system: family, then distribution, then system; an unsupported one is refused."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter import operating_systems
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import system_data
from gpufleet.errors import InputError

FILE = """
families:
  debian:
    service: ssh
    engine: {packages: [podman], version: null}
    source: "Suites: {codename}, not ${distro_codename}"
  redhat: {service: sshd}
distributions:
  ubuntu:
    engine: {packages: [podman, crun]}
systems:
  ubuntu-24.04:
    engine: {version: 4.9.3}
"""


@pytest.fixture
def systems_file(tmp_path):
    """Write a role's systems.yml; return its path."""

    def write(text, role="common"):
        path = tmp_path / role / "systems.yml"
        path.parent.mkdir()
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("system", "service", "engine", "codename"),
    [
        ("debian-12", "ssh", {"packages": ["podman"], "version": None}, "bookworm"),
        ("ubuntu-22.04", "ssh", {"packages": ["podman", "crun"], "version": None}, "jammy"),
        ("ubuntu-24.04", "ssh", {"packages": ["podman", "crun"], "version": "4.9.3"}, "noble"),
    ],
)
def test_values_of_the_more_exact_section_win(systems_file, system, service, engine, codename):
    values = operating_systems.role_system_values(str(systems_file(FILE)), system)
    source = f"Suites: {codename}, not ${{distro_codename}}"
    assert values == {"service": service, "engine": engine, "source": source}


def test_values_without_a_section_are_those_of_the_family(systems_file):
    assert operating_systems.role_system_values(str(systems_file(FILE)), "rhel-9") == {"service": "sshd"}


@pytest.mark.parametrize("system", ["debian-14", "rhel-8", "opensuse-15", ""])
def test_unsupported_system_is_refused_with_the_file(systems_file, system):
    path = systems_file(FILE)
    with pytest.raises(AnsibleFilterError) as caught:
        operating_systems.role_system_values(str(path), system)
    message = str(caught.value)
    assert message.startswith(f"{path}: the role common does not support the system {system}")
    assert "use one of debian-12, debian-13, raspberry-pi-os-12," in message


def test_family_does_not_make_a_system_supported(systems_file):
    """The file has values for the family debian, but Raspberry Pi OS 12 is in no group of this role."""
    path = systems_file(FILE, role="nvidia_driver")
    assert system_data.read_role_system_values(path, "rhel-9") == {"service": "sshd"}
    with pytest.raises(
        InputError, match="the role nvidia_driver does not support the system raspberry-pi-os-12"
    ):
        system_data.read_role_system_values(path, "raspberry-pi-os-12")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("family: {}", "unknown section: family; use one of distributions, families, systems"),
        ("families: {suse: {}}", "unknown name in families: suse; use one of debian, redhat"),
        ("systems: {ubuntu-24.4: {}}", "unknown name in systems: ubuntu-24.4; use one of amazon-"),
    ],
)
def test_misspelt_name_is_refused_with_the_known_ones(systems_file, text, message):
    with pytest.raises(InputError) as caught:
        system_data.read_role_system_values(systems_file(text), "debian-12")
    assert message in str(caught.value)


def test_role_without_group_is_refused():
    with pytest.raises(InputError, match="the role telemetry has no group"):
        system_data.list_supported_systems("telemetry")


@pytest.mark.parametrize(
    ("plan_system", "name"),
    [
        ({"id": "rocky", "version": "9.6"}, "rhel-9"),
        ({"id": "ol", "version": "10.1"}, "rhel-10"),
        ({"id": "ol", "version": "8.10"}, "ol-8.10"),
        ({"id": "ubuntu", "version": "22.04"}, "ubuntu-22.04"),
        ({"id": "debian", "version": "12"}, "debian-12"),
        ({"id": "fedora", "version": "43"}, "fedora-43"),
    ],
)
def test_name_of_a_driver_plans_system(plan_system, name):
    assert operating_systems.driver_system_name(plan_system) == name


def test_base_roles_accept_rhel_compatible_systems_but_not_every_driver_system():
    supported = operating_systems.supported_system_names("system")
    assert supported["rocky-9"] == supported["almalinux-9"] == "rhel-9"
    assert supported["raspbian-12"] == "raspberry-pi-os-12"
    assert "ol-9" not in supported

"""Test engines and toolkits on a booted Debian 12: what is installed and what is reported as missing."""

from __future__ import annotations

import json

import pytest

PLAYS = ("containers",)


def role_report(runs, host, run="second"):
    """Return what the play's last task showed."""
    reports = [
        r.output["msg"]
        for r in getattr(runs, run).results_of(host)
        if r.task == f"What the roles found on {host}"
    ]
    return reports[-1]


def test_both_engines_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("containers").assert_idempotent()


def test_podman_is_installed_from_debian_with_the_configured_settings(converge_play, lab):
    converge_play("containers")
    host = lab.host("base01")
    assert host.package("podman").version.startswith("4.3.1")
    store = host.check_output("podman info --format '{{.Store.GraphDriverName}} {{.Store.GraphRoot}}'")
    assert store == "overlay /srv/containers"
    registries = json.loads(host.check_output("podman info --format '{{json .Registries}}'"))
    assert registries["search"] == ["docker.io"]
    mirrors = [(mirror["Location"], mirror["Insecure"]) for mirror in registries["docker.io"]["Mirrors"]]
    assert mirrors == [("198.18.0.1:5000/hub", True), ("mirror.example.org", False)]
    assert 'default_ulimits = ["memlock=-1:-1"]' in host.file(
        "/etc/containers/containers.conf.d/50-gpufleet.conf").content_string  # fmt: skip


def test_rootless_users_have_id_ranges_and_linger(converge_play, lab):
    report = role_report(converge_play("containers"), "base01")
    host = lab.host("base01")
    for path in ("/etc/subuid", "/etc/subgid"):
        assert host.file(path).content_string.splitlines().count("www-data:400000:65536") == 1
    assert host.file("/var/lib/systemd/linger/www-data").exists
    assert "first_id" in report["engine"]["rootless_backup"]
    assert "rootless_www-data" not in report["engine"]


def test_features_of_podman_are_detected(converge_play):
    runs = converge_play("containers")
    abilities = {
        "engine": "podman",
        "version": "4.3.1",
        "quadlet": False,
        "cdi": True,
        "cdi_additional_gids": False,
    }
    assert role_report(runs, "base01")["abilities"] == {**abilities, "asked": True}
    # Check mode has no installed program to ask; the distribution's index has the same version.
    assert role_report(runs, "base01", "check")["abilities"] == {**abilities, "asked": False}
    assert "no quadlets" in role_report(runs, "base01")["engine"]["quadlet"]


def test_old_podman_gets_a_device_specification_it_can_read(converge_play, lab):
    runs = converge_play("containers")
    host = lab.host("base01")
    lines = host.file("/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env").content_string.splitlines()
    assert lines == ["NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes"]
    assert host.service("nvidia-cdi-refresh.path").is_running
    assert host.service("nvidia-cdi-refresh.service").is_enabled
    assert role_report(runs, "base01")["toolkit"] == {"devices": "no CDI devices: no NVIDIA driver is loaded"}
    assert role_report(runs, "base01")["devices"] == []


def test_all_packages_of_a_pinned_toolkit_are_held(converge_play, lab):
    converge_play("containers")
    host = lab.host("base01")
    names = [
        "libnvidia-container-tools",
        "libnvidia-container1",
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
    ]
    assert sorted(host.check_output("apt-mark showhold").splitlines()) == names
    assert {host.package(name).version for name in names} == {"1.19.0-1"}


def test_docker_configuration_has_the_settings_of_all_roles(converge_play, lab):
    converge_play("containers")
    daemon = json.loads(lab.host("amd01").file("/etc/docker/daemon.json").content_string)
    assert daemon == {
        "data-root": "/srv/docker",
        "log-driver": "json-file",
        "log-opts": {"max-size": "50m", "max-file": "5"},
        "live-restore": True,
        "registry-mirrors": ["http://198.18.0.1:5000"],
        "insecure-registries": ["198.18.0.1:5000"],
        "default-ulimits": {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}},
        "log-level": "warn",
        "runtimes": {"amd": {"path": "amd-container-runtime", "args": []}},
    }


def test_docker_is_installed_and_why_it_does_not_run_is_reported(converge_play, lab):
    report = role_report(converge_play("containers"), "amd01")
    assert lab.host("amd01").package("docker.io").is_installed
    assert lab.host("amd01").service("docker.service").is_enabled
    assert "systemd-nspawn" in report["engine"]["units"]["docker.service"]
    assert "25.0" in report["engine"]["cdi"]
    assert "without a path" in report["engine"]["mirror mirror.example.org/hub"]


def test_amd_device_specification_units_wait_for_a_driver(converge_play, lab):
    report = role_report(converge_play("containers"), "amd01")
    host = lab.host("amd01")
    assert host.service("gpufleet-cdi-amd.path").is_running
    assert host.run("systemd-analyze verify /etc/systemd/system/gpufleet-cdi-amd.service").stderr == ""
    assert report["toolkit"]["units"] == {
        "gpufleet-cdi-amd.service": "does not run: its start condition is not met (ConditionPathExists=/dev/kfd)"
    }
    assert "/dev/kfd" in report["toolkit"]["devices"]


BROKEN = """
- name: Docker on a host with a broken file
  hosts: amd01
  gather_facts: false
  vars: {container_engine_kind: docker}
  tasks:
    - ansible.builtin.import_role: {name: gpufleet.fleet.container_engine}
"""


def test_invalid_json_file_is_refused_and_unchanged(converge_play, lab):
    converge_play("containers")
    host = lab.host("amd01")
    host.check_output(
        "cp -p /etc/docker/daemon.json /run/kept && echo '{\"log-level\": ' > /etc/docker/daemon.json"
    )
    try:
        failure = lab.run(BROKEN).failure_text("amd01")
        assert host.file("/etc/docker/daemon.json").content_string == '{"log-level": \n'
    finally:
        host.check_output("mv /run/kept /etc/docker/daemon.json")
    assert "/etc/docker/daemon.json was not changed: it is not JSON" in failure


VENDOR = {"container_engine_kind": "docker", "container_engine_origin": "vendor", "gpufleet_rehearsal": False}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"container_engine_kind": "cri-o"}, "cri-o"),
        (
            VENDOR | {"container_engine_key_folder": "/srv/no-keys"},
            "/srv/no-keys: the folder of signing keys is not on the controller",
        ),
    ],
)
def test_unknown_engine_is_refused(lab, converge_play, variables, message):
    converge_play("containers")
    assert message in lab.run(BROKEN, extra_vars=variables).failure_text("amd01")

"""Filters of the containers' and fabrics' roles, where the recorded values of test_role_values.py have no case."""

import subprocess
import sys

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter import container_engine
from ansible_collections.gpufleet.fleet.plugins.filter.ib_tools import doca_repositories
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import shell_script_command

SETTINGS = {
    "data_root": "",
    "storage_driver": "overlay",
    "log_max_mib": 50,
    "log_max_files": 5,
    "search_registries": ["docker.io"],
    "mirrors": [{"registry": "docker.io", "mirror": "198.18.0.1:5000/hub", "insecure": True}],
    "rootless_users": [],
    "unlimited_memlock": True,
    "live_restore": True,
    "docker_settings": {},
}
DOCA = {"ib_tools_system_doca": "https://x/VERSION/y/"}


def test_system_without_docker_of_its_own_is_refused_with_the_remedy():
    engines = {"container_engine_podman": {}, "container_engine_docker": {"vendor": {}}}
    with pytest.raises(
        AnsibleFilterError, match="rhel-9 has no Docker of its own; set container_engine_origin"
    ):
        container_engine.container_engine_source(
            engines, kind="docker", origin="distribution", system="rhel-9", repositories=[]
        )


def test_system_that_docker_does_not_publish_for_is_refused_unless_a_repository_is_named():
    engines = {
        "container_engine_podman": {},
        "container_engine_docker": {"vendor": {"packages": ["docker-ce"]}},
    }
    arguments = {"kind": "docker", "origin": "vendor", "system": "debian-14"}
    with pytest.raises(
        AnsibleFilterError, match="Docker documents no repository for debian-14; set container_eng"
    ):
        container_engine.container_engine_source(engines, **arguments, repositories=[])
    source = container_engine.container_engine_source(engines, **arguments, repositories=[{"name": "mirror"}])
    assert source == {"packages": ["docker-ce"]}


@pytest.mark.parametrize(("damage", "accepted"), [("", True), ("= 1\n", False)])
def test_podman_files_are_checked_as_toml(tmp_path, damage, accepted):
    files = [entry for entry in container_engine.podman_config_files(SETTINGS) if "validate" in entry]
    assert len(files) == 3
    for entry in files:
        path = tmp_path / "candidate"
        path.write_text(entry["content"] + damage)
        command = [str(path) if argument == "{}" else argument for argument in entry["validate"]]
        done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == accepted, done.stderr
        assert ("not TOML" in done.stderr) != accepted


@pytest.mark.parametrize(
    ("system", "version", "fingerprints", "message"),
    [
        ({}, "3.1.0", ["AB" * 20], "no DOCA repository for rhel-9"),
        (DOCA, "", ["AB" * 20], "give ib_tools_doca_version and ib_tools_doca_fingerprints"),
        (DOCA, "3.1.0", [], "give ib_tools_doca_version and ib_tools_doca_fingerprints"),
    ],
)
def test_incomplete_doca_settings_are_refused(system, version, fingerprints, message):
    with pytest.raises(AnsibleFilterError, match=message):
        doca_repositories(system, version=version, fingerprints=fingerprints, system_name="rhel-9")


def test_doca_release_is_part_of_the_address():
    (repository,) = doca_repositories(DOCA, version="3.1.0", fingerprints=["AB" * 20], system_name="x")
    assert repository["uri"] == "https://x/3.1.0/y/"


def test_script_gets_the_items_of_lists_as_arguments():
    command = shell_script_command('printf "%s," "$0" "$@"', "show", "a b", ["c", "d e"], [])
    assert command[:2] == ["sh", "-c"]
    assert subprocess.check_output(command, text=True) == "show,a b,c,d e,"

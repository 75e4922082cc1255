"""A rehearsal's folder and environment, without running the engine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from gpufleet import engine
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import Rehearsal, backend

SALT = "v1:c2FsdA==:v1:bm9uY2U=:dGV4dA=="


@pytest.fixture
def project(tmp_path):
    """Return a project with two stacks, in a folder with special characters in its name."""
    root = tmp_path / "it's a $HOME project"
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\nstackConfigDir: stacks\n")
    for stack in ("dev", "poc"):
        (root / "stacks" / f"Pulumi.{stack}.yaml").write_text("config: {}\n")
    return root


@pytest.fixture
def rehearsal(project, tmp_path, monkeypatch):
    """Return a rehearsal that comes up with a fake engine."""
    fake_engine = engine.PulumiEngine(tmp_path / "engine" / "pulumi", "3.258.0", tmp_path / "engine", "built")
    monkeypatch.setattr("gpufleet.engine.ensure_pulumi_engine", lambda _report: fake_engine)
    monkeypatch.setattr(backend, "ensure_stack", lambda _rehearsal, _engine: SALT)
    return Rehearsal(project, "dev")


def ignore_message(_line):
    pass


def shell(rehearsal, command):
    """Run a command in bash after `eval` of the environment as `rehearse env` prints it."""
    lines = "\n".join(
        f"export {name}={shlex.quote(value)}" for name, value in rehearsal.build_environment().items()
    )
    result = subprocess.run(["bash", "-c", f"{lines}\n{command}"], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_rehearsal_is_not_up_initially(rehearsal):
    assert not rehearsal.is_set_up
    with pytest.raises(EnvironmentFault, match="the rehearsal of dev does not exist") as excinfo:
        rehearsal.build_environment()
    assert excinfo.value.hint == "run `gpufleet rehearse up -s dev` first"


def test_unknown_stack_is_refused_with_the_known_ones(project):
    with pytest.raises(InputError, match="stack 'prod' not found; stacks here are dev, poc"):
        Rehearsal(project, "prod").build_environment()


def test_second_up_of_a_rehearsal_changes_nothing(rehearsal):
    rehearsal.set_up(ignore_message)
    first = {
        path: path.stat().st_mtime_ns for path in rehearsal.bin.iterdir() if path.name.startswith("pulumi-")
    }
    rehearsal.set_up(ignore_message)
    assert first == {path: path.stat().st_mtime_ns for path in first}
    assert rehearsal.is_set_up


def test_all_paths_of_the_environment_are_in_the_rehearsal(rehearsal):
    rehearsal.set_up(ignore_message)
    variables = rehearsal.build_environment()
    for name in ("GPUFLEET_HOME", "PULUMI_HOME", "ANSIBLE_PRIVATE_KEY_FILE", "GPUFLEET_ADDRESS_BOOK"):
        assert variables[name].startswith(str(rehearsal.home))
    assert variables["GPUFLEET_DATABASE_URL"] == f"sqlite:///{rehearsal.home}/registry.db"
    assert variables["GPUFLEET_REHEARSAL"] == "dev"
    assert variables["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "false"


def test_environment_variables_work_in_a_shell(rehearsal):
    rehearsal.set_up(ignore_message)
    assert shell(rehearsal, 'printf %s "$GPUFLEET_HOME"') == str(rehearsal.home)
    assert shell(rehearsal, "command -v pulumi") == str(rehearsal.bin / "pulumi")
    assert shell(rehearsal, "command -v pulumi-resource-aws") == str(rehearsal.bin / "pulumi-resource-aws")


def test_ssh_reads_a_known_hosts_path_with_spaces(rehearsal):
    rehearsal.set_up(ignore_message)
    options = shlex.split(rehearsal.build_environment()["ANSIBLE_SSH_COMMON_ARGS"])
    output = subprocess.run(
        ["ssh", "-G", *options, "host"], capture_output=True, text=True, check=True
    ).stdout
    assert f"userknownhostsfile {rehearsal.known_hosts}" in output.replace('"', "")
    assert "stricthostkeychecking true" in output


def test_setting_the_environment_twice_does_not_grow_the_path(rehearsal, monkeypatch):
    rehearsal.set_up(ignore_message)
    path_variable = rehearsal.build_environment()["PATH"]
    monkeypatch.setenv("PATH", path_variable)
    assert rehearsal.build_environment()["PATH"] == path_variable


def test_down_works_with_a_damaged_environment_file(rehearsal):
    rehearsal.set_up(ignore_message)
    rehearsal.facts_file.write_text("{")
    rehearsal.tear_down(ignore_message)
    assert not rehearsal.home.exists()


def test_second_down_of_a_rehearsal_succeeds(rehearsal):
    rehearsal.set_up(ignore_message)
    rehearsal.tear_down(ignore_message)
    messages = []
    rehearsal.tear_down(messages.append)
    assert messages == ["rehearsal of dev: nothing to remove"]
    assert list(rehearsal.home.parent.iterdir()) == []


def test_status_before_up_reports_no_rehearsal(rehearsal):
    status = rehearsal.read_status()
    assert (status.up, status.resources, status.processes) == (False, 0, ())


def test_all_rehearsals_of_a_project_are_found(rehearsal, project):
    (rehearsal.home.parent / "gone").mkdir(parents=True)
    assert [rehearsal.stack for rehearsal in Rehearsal.find_all_rehearsals(project)] == ["dev", "gone", "poc"]


def test_rehearsal_folder_is_readable_by_its_owner_only(rehearsal):
    rehearsal.set_up(ignore_message)
    assert rehearsal.backend.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [("name: fleet", "fleet"), ("name: 'my-fleet' # ours", "my-fleet"), ('name: "a.b"', "a.b")],
)
def test_project_name_is_read_from_pulumi_yaml(tmp_path, text, name):
    (tmp_path / "Pulumi.yaml").write_text(f"# name: other\n{text}\nruntime: python\n")
    assert backend.read_project_name(tmp_path) == name


def test_project_without_a_name_is_refused(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("runtime: python\n")
    with pytest.raises(InputError, match="no name"):
        backend.read_project_name(tmp_path)


def test_resources_are_counted_without_stack_and_providers(rehearsal):
    kinds = ("pulumi:pulumi:Stack", "pulumi:providers:aws", "aws:ec2/vpc:Vpc")
    latest = {"resources": [{"type": kind} for kind in kinds], "pending_operations": [{}]}
    state = backend.stack_state_file(rehearsal)
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    assert backend.count_resources_and_pending(rehearsal) == (1, 1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoint": {}}'])
def test_state_that_cannot_be_read_counts_as_empty(rehearsal, text):
    state = backend.stack_state_file(rehearsal)
    state.parent.mkdir(parents=True)
    state.write_text(text)
    assert backend.count_resources_and_pending(rehearsal) == (0, 0)


def test_environment_contains_no_user_credentials(rehearsal):
    rehearsal.set_up(ignore_message)
    assert not {
        name for name in rehearsal.build_environment() if name.startswith(("AWS_", "ARM_", "GOOGLE_"))
    }
    assert set(os.environ["PATH"].split(os.pathsep)) <= set(
        rehearsal.build_environment()["PATH"].split(os.pathsep)
    )

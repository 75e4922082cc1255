"""A rehearsal's folder and environment, without running the engine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from gpufleet import engine
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import World, backend

SALT = "v1:c2FsdA==:v1:bm9uY2U=:dGV4dA=="


@pytest.fixture
def project(tmp_path):
    """Give a project with two stacks, in a folder whose name a shell would split."""
    root = tmp_path / "it's a $HOME project"
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\n")
    for stack in ("dev", "poc"):
        (root / "stacks" / f"Pulumi.{stack}.yaml").write_text("config: {}\n")
    return root


@pytest.fixture
def world(project, tmp_path, monkeypatch):
    """Give a world that comes up with a stand-in for the engine's part of the work."""
    found = engine.Engine(tmp_path / "engine" / "pulumi", "3.258.0", tmp_path / "engine", "built")
    monkeypatch.setattr("gpufleet.engine.ensure", lambda _say: found)
    monkeypatch.setattr(backend, "ensure_stack", lambda _world, _engine: SALT)
    return World(project, "dev")


def quiet(_line):
    pass


def shell(world, command):
    """Run a command in bash after `eval` of the environment as `rehearse env` prints it."""
    lines = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in world.env().items())
    done = subprocess.run(["bash", "-c", f"{lines}\n{command}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_world_is_not_up_before_up(world):
    assert not world.is_up
    with pytest.raises(EnvironmentFault, match="no rehearsal of dev") as caught:
        world.env()
    assert caught.value.hint == "run `gpufleet rehearse up -s dev` first"


def test_a_stack_that_is_not_there_is_refused_with_those_that_are(project):
    with pytest.raises(InputError, match="no stack 'prod'; stacks here are dev, poc"):
        World(project, "prod").env()


def test_up_twice_is_up_once(world):
    world.up(quiet)
    first = {path: path.stat().st_mtime_ns for path in world.bin.iterdir() if path.name.startswith("pulumi-")}
    world.up(quiet)
    assert first == {path: path.stat().st_mtime_ns for path in first}
    assert world.is_up


def test_the_environment_separates_the_rehearsal_from_the_real_thing(world):
    world.up(quiet)
    found = world.env()
    for name in ("GPUFLEET_HOME", "PULUMI_HOME", "ANSIBLE_PRIVATE_KEY_FILE", "GPUFLEET_ADDRESS_BOOK"):
        assert found[name].startswith(str(world.home))
    assert found["GPUFLEET_DATABASE_URL"] == f"sqlite:///{world.home}/registry.db"
    assert found["GPUFLEET_REHEARSAL"] == "dev"
    assert found["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "false"


def test_the_environment_survives_a_shell(world):
    world.up(quiet)
    assert shell(world, 'printf %s "$GPUFLEET_HOME"') == str(world.home)
    assert shell(world, "command -v pulumi") == str(world.bin / "pulumi")
    assert shell(world, "command -v pulumi-resource-aws") == str(world.bin / "pulumi-resource-aws")


def test_ssh_reads_the_known_hosts_path_whole(world):
    world.up(quiet)
    options = shlex.split(world.env()["ANSIBLE_SSH_COMMON_ARGS"])
    said = subprocess.run(["ssh", "-G", *options, "host"], capture_output=True, text=True, check=True).stdout
    assert f"userknownhostsfile {world.known_hosts}" in said.replace('"', "")
    assert "stricthostkeychecking true" in said


def test_setting_the_environment_twice_does_not_grow_the_path(world, monkeypatch):
    world.up(quiet)
    once = world.env()["PATH"]
    monkeypatch.setenv("PATH", once)
    assert world.env()["PATH"] == once


def test_a_hand_edited_environment_file_is_not_needed_for_down(world):
    world.up(quiet)
    world.facts.write_text("{")
    world.down(quiet)
    assert not world.home.exists()


def test_down_twice_is_down(world):
    world.up(quiet)
    world.down(quiet)
    said = []
    world.down(said.append)
    assert said == ["rehearsal of dev: nothing there"]
    assert list(world.home.parent.iterdir()) == []


def test_status_of_nothing_is_not_up(world):
    status = world.status()
    assert (status.up, status.resources, status.processes) == (False, 0, ())


def test_a_project_knows_all_its_rehearsals(world, project):
    (world.home.parent / "gone").mkdir(parents=True)
    assert [found.stack for found in World.all_in(project)] == ["dev", "gone", "poc"]


def test_the_folder_is_the_users_own(world):
    world.up(quiet)
    assert world.backend.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [("name: fleet", "fleet"), ("name: 'my-fleet' # ours", "my-fleet"), ('name: "a.b"', "a.b")],
)
def test_the_projects_name_is_read(tmp_path, text, name):
    (tmp_path / "Pulumi.yaml").write_text(f"# name: other\n{text}\nruntime: python\n")
    assert backend.project_name(tmp_path) == name


def test_a_project_without_a_name_is_refused(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("runtime: python\n")
    with pytest.raises(InputError, match="no name"):
        backend.project_name(tmp_path)


def test_resources_are_counted_without_the_engines_own(world):
    kinds = ("pulumi:pulumi:Stack", "pulumi:providers:aws", "aws:ec2/vpc:Vpc")
    latest = {"resources": [{"type": kind} for kind in kinds], "pending_operations": [{}]}
    state = backend.state_file(world)
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"checkpoint": {"latest": latest}}))
    assert backend.count(world) == (1, 1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoint": {}}'])
def test_a_state_that_cannot_be_read_counts_as_empty(world, text):
    state = backend.state_file(world)
    state.parent.mkdir(parents=True)
    state.write_text(text)
    assert backend.count(world) == (0, 0)


def test_the_environment_holds_nothing_of_the_users_own(world):
    world.up(quiet)
    assert not {name for name in world.env() if name.startswith(("AWS_", "ARM_", "GOOGLE_"))}
    assert set(os.environ["PATH"].split(os.pathsep)) <= set(world.env()["PATH"].split(os.pathsep))

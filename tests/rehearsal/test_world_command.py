"""``gpufleet rehearse`` as typed: exit codes, one line on stderr, data on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.cli import rehearse
from gpufleet.errors import InputError
from gpufleet.rehearsal import lifecycle, rack


def test_env_before_up_is_a_fault_with_the_next_step(gpufleet, project):
    done = gpufleet("rehearse", "env", "-s", "dev", cwd=project)
    assert (done.returncode, done.stdout) == (3, "")
    assert "hint: run `gpufleet rehearse up -s dev` first" in done.stderr


@pytest.mark.parametrize("verb", ["up", "env"])
def test_an_unknown_stack_is_wrong_input(gpufleet, project, verb):
    done = gpufleet("rehearse", verb, "-s", "prod", cwd=project)
    assert done.returncode == 2
    assert "stacks here are dev, poc, production" in done.stderr


def test_status_of_nothing_is_no(gpufleet, project):
    done = gpufleet("rehearse", "status", "-s", "dev", "--json", cwd=project)
    assert done.returncode == 1
    assert json.loads(done.stdout)["up"] is False


def test_down_wants_to_know_which(gpufleet, project):
    assert gpufleet("rehearse", "down", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "-s", "dev", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "--deleted", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "--yes", cwd=project).returncode == 2


def test_down_of_nothing_is_done(gpufleet, project):
    done = gpufleet("rehearse", "down", "-s", "dev", cwd=project)
    assert (done.returncode, done.stderr) == (0, "rehearsal of dev: nothing there\n")


def test_outside_a_project_is_wrong_input(gpufleet, tmp_path):
    done = gpufleet("rehearse", "status", "-s", "dev", cwd=tmp_path)
    assert done.returncode == 2
    assert "run inside a gpufleet project" in done.stderr


def test_an_unknown_fault_set_is_refused_before_anything_is_made(gpufleet, project):
    done = gpufleet("rehearse", "up", "-s", "production", "--faults", "nosuch", cwd=project)
    assert done.returncode == 2
    assert not (project / ".gpufleet").exists()


def test_down_all_leaves_other_projects_rehearsals(tmp_path, monkeypatch):
    """Test with the list that the machine keeps of rehearsals whose folder is gone."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    homes = [rack.Forsaken(root / ".gpufleet/rehearsal/poc") for root in (mine, other)]
    monkeypatch.setattr(rack, "forsaken", lambda: homes)
    assert lifecycle.deleted_homes(mine) == [homes[0].home]
    assert lifecycle.deleted_homes() == [home.home for home in homes]


def test_others_hosts_are_ended_only_with_consent(monkeypatch):
    ended = []
    monkeypatch.setattr(rack, "forsaken", lambda: [rack.Forsaken(Path("/gone/home"))])
    monkeypatch.setattr(rack, "down", lambda lost, _say: ended.append(lost.home))
    refused = CliRunner().invoke(rehearse.command, ["down", "--deleted"])
    assert isinstance(refused.exception, InputError)
    assert ended == []
    assert CliRunner().invoke(rehearse.command, ["down", "--deleted", "--yes"]).exit_code == 0
    assert ended == [Path("/gone/home")]

"""``gpufleet rehearse`` as typed: exit codes, one line on stderr, data on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.cli import rehearse
from gpufleet.errors import InputError
from gpufleet.rehearsal import lifecycle, rack


def test_env_command_before_up_fails_with_the_next_step(gpufleet, project):
    result = gpufleet("rehearse", "env", "-s", "dev", cwd=project)
    assert (result.returncode, result.stdout) == (3, "")
    assert "hint: run `gpufleet rehearse up -s dev` first" in result.stderr


@pytest.mark.parametrize("verb", ["up", "env"])
def test_unknown_stack_is_refused(gpufleet, project, verb):
    result = gpufleet("rehearse", verb, "-s", "prod", cwd=project)
    assert result.returncode == 2
    assert "stacks here are dev, poc, production" in result.stderr


def test_status_without_rehearsal_exits_with_1(gpufleet, project):
    result = gpufleet("rehearse", "status", "-s", "dev", "--json", cwd=project)
    assert result.returncode == 1
    assert json.loads(result.stdout)["up"] is False


def test_down_requires_exactly_one_target(gpufleet, project):
    assert gpufleet("rehearse", "down", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "-s", "dev", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "--deleted", cwd=project).returncode == 2
    assert gpufleet("rehearse", "down", "--all", "--yes", cwd=project).returncode == 2


def test_down_without_rehearsal_succeeds(gpufleet, project):
    result = gpufleet("rehearse", "down", "-s", "dev", cwd=project)
    assert (result.returncode, result.stderr) == (0, "rehearsal of dev: nothing to remove\n")


def test_outside_a_project_the_command_is_refused(gpufleet, tmp_path):
    result = gpufleet("rehearse", "status", "-s", "dev", cwd=tmp_path)
    assert result.returncode == 2
    assert "run inside a gpufleet project" in result.stderr


def test_unknown_fault_set_is_refused_before_any_change(gpufleet, project):
    result = gpufleet("rehearse", "up", "-s", "production", "--faults", "nosuch", cwd=project)
    assert result.returncode == 2
    assert not (project / ".gpufleet").exists()


def test_down_all_keeps_rehearsals_of_other_projects(tmp_path, monkeypatch):
    """Test with a list of deleted rehearsals."""
    own_project, other_project = tmp_path / "mine", tmp_path / "other"
    homes = [rack.DeletedRehearsal(root / ".gpufleet/rehearsal/poc") for root in (own_project, other_project)]
    monkeypatch.setattr(rack, "find_deleted_rehearsals", lambda: homes)
    assert lifecycle.find_deleted_rehearsal_homes(own_project) == [homes[0].home]
    assert lifecycle.find_deleted_rehearsal_homes() == [home.home for home in homes]


def test_hosts_of_other_projects_are_stopped_only_with_consent(monkeypatch):
    stopped = []
    monkeypatch.setattr(rack, "find_deleted_rehearsals", lambda: [rack.DeletedRehearsal(Path("/gone/home"))])
    monkeypatch.setattr(rack, "stop_racks", lambda deleted, _report: stopped.append(deleted.home))
    refused = CliRunner().invoke(rehearse.rehearse_command, ["down", "--deleted"])
    assert isinstance(refused.exception, InputError)
    assert stopped == []
    assert CliRunner().invoke(rehearse.rehearse_command, ["down", "--deleted", "--yes"]).exit_code == 0
    assert stopped == [Path("/gone/home")]

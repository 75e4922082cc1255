"""``gpufleet rehearse`` as typed: exit codes, one line on stderr, data on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from gpufleet.cli import rehearse, rehearse_fault
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["stock-out"], "stock-out needs --cloud"),
        (["preempt", "--cloud", "aws"], "preempt needs --node"),
        (["throttle", "--cloud", "aws", "--zone", "us-east-1a"], "cannot be combined with throttle"),
        (["stock-out", "--cloud", "aws", "--count", "2"], "--count cannot be combined with stock-out"),
    ],
)
def test_cloud_fault_with_wrong_options_is_refused(project, monkeypatch, arguments, text):
    monkeypatch.chdir(project)
    monkeypatch.setattr(rehearse_fault, "_find_running_rehearsal", lambda _stack: None)
    result = CliRunner().invoke(rehearse_fault.fault_command, ["cloud", *arguments, "-s", "dev"])
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--cloud", "aws", "--zone", "us-east-1z"],
            "--zone: 'us-east-1z' is not a zone of aws us-east-1; give a ",
        ),
        (["--cloud", "aws", "--zone", "us-west-2a"], "is not a zone of aws us-east-1"),
        (["--cloud", "gcp", "--zone", "us-central1"], "give a zone like us-central1-a"),
        (["--cloud", "azure", "--zone", "4"], "'4' is not a zone of azure eastus; give a zone like 1"),
        (["--cloud", "aws", "--machine", "g5.2xlagre"], "--machine: "),
    ],
)
def test_cloud_fault_that_no_pool_can_meet_is_refused(project, monkeypatch, arguments, text):
    monkeypatch.chdir(project)
    rehearsal = SimpleNamespace(root=project, home=project / "none")
    monkeypatch.setattr(rehearse_fault, "_find_running_rehearsal", lambda _stack: rehearsal)
    result = CliRunner().invoke(
        rehearse_fault.fault_command, ["cloud", "stock-out", *arguments, "-s", "dev"], standalone_mode=False
    )
    assert isinstance(result.exception, InputError)
    assert text in str(result.exception)
    assert not rehearsal.home.exists()


def test_cloud_fault_needs_a_running_rehearsal(gpufleet, project):
    result = gpufleet("rehearse", "fault", "cloud", "list", "-s", "dev", cwd=project)
    assert (result.returncode, result.stdout) == (2, "")
    assert "the rehearsal of dev is not up; gpufleet rehearse up -s dev" in result.stderr


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

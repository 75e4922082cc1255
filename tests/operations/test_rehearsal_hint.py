"""Test what a shell outside of the project's running rehearsal is told."""

from __future__ import annotations

import pytest

from gpufleet.cli import configure as configure_verb
from gpufleet.errors import EnvironmentFault
from gpufleet.operations.burnin import open_results_registry
from gpufleet.operations.configure import ConfigureResult, HostOutcome
from gpufleet.operations.node_view import open_existing_registry
from gpufleet.operations.playbook_run import PlaybookRequest
from gpufleet.operations.rehearsal_hint import describe_unused_rehearsal, suggest_sync

COMMAND = 'a rehearsal of dev is up: eval "$(gpufleet rehearse env -s dev)"'


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("GPUFLEET_REHEARSAL", "GPUFLEET_HOME", "GPUFLEET_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rehearsed(project):
    for name in ("dev", ".half", "down"):
        (project / ".gpufleet/rehearsal" / name).mkdir(parents=True)
    for name in ("dev", ".half"):
        (project / ".gpufleet/rehearsal" / name / "env.json").write_text("{}")


@pytest.mark.usefixtures("rehearsed")
@pytest.mark.parametrize("open_registry", [open_existing_registry, open_results_registry])
def test_missing_registry_names_the_rehearsal(open_registry, project):
    with pytest.raises(EnvironmentFault) as caught:
        open_registry()
    assert caught.value.hint == f"gpufleet nodes sync -s STACK; or {COMMAND}"
    assert not (project / ".gpufleet/registry.db").exists()


@pytest.mark.usefixtures("project")
def test_missing_registry_names_no_rehearsal_that_is_not_up():
    with pytest.raises(EnvironmentFault) as caught:
        open_existing_registry()
    assert caught.value.hint == "gpufleet nodes sync -s STACK"


def test_hint_names_the_only_stack(project):
    (project / "Pulumi.dev.yaml").write_text("config: {}\n")
    assert suggest_sync() == "gpufleet nodes sync -s dev"
    (project / "Pulumi.prod.yaml").write_text("config: {}\n")
    assert suggest_sync() == "gpufleet nodes sync -s STACK"


@pytest.mark.usefixtures("rehearsed")
@pytest.mark.parametrize(("status", "told"), [("unreachable", f"{COMMAND}\n"), ("ok", "")])
def test_run_that_reached_no_host_names_the_rehearsal(status, told, capsys):
    configure_verb.print_unused_rehearsal(
        ConfigureResult(PlaybookRequest(), (HostOutcome("b1", status, "", 0),))
    )
    assert capsys.readouterr().err == told


@pytest.mark.usefixtures("rehearsed")
def test_shell_of_a_rehearsal_is_told_nothing(monkeypatch):
    monkeypatch.setenv("GPUFLEET_REHEARSAL", "dev")
    assert describe_unused_rehearsal() == ""

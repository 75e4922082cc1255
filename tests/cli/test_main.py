"""Test that the command line turns every project error into one line and its exit code."""

from __future__ import annotations

import click
import pytest

from gpufleet import __version__, cli
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError


def run_failing(error, monkeypatch, capsys):
    @click.command()
    def failing():
        raise error

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: failing)
    monkeypatch.setattr("sys.argv", ["gpufleet", "failing"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code, capsys.readouterr()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckFailed("no"), 1),
        (InputError("odd", where="f:3", key="k"), 2),
        (EnvironmentFault("no engine"), 3),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error, code, monkeypatch, capsys):
    exit_code, printed = run_failing(error, monkeypatch, capsys)
    assert exit_code == code
    assert printed.err.splitlines() == [f"error: {error}"]
    assert printed.out == ""


def test_hints_follow_after_a_blank_line(monkeypatch, capsys):
    _, printed = run_failing(EnvironmentFault("no engine", hint="build one"), monkeypatch, capsys)
    assert printed.err.splitlines() == ["error: no engine", "", "hint: build one"]


def test_input_error_names_place_key_and_remedy():
    error = InputError("'-1' is negative", where="stacks/a.yaml:4", key="count", remedy="give 1 or more")
    assert str(error) == "stacks/a.yaml:4: count: '-1' is negative; give 1 or more"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_listed_verb_has_a_help_text(verb, gpufleet, tmp_path):
    result = gpufleet(verb, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_unknown_verb_is_refused(gpufleet, tmp_path):
    result = gpufleet("sizes", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "error: gpufleet: no command 'sizes'; did you mean gpufleet size?\n"


def test_wrong_choice_is_one_line_and_a_hint(gpufleet, tmp_path):
    result = gpufleet("rehearse", "fault", "cloud", "flood", cwd=tmp_path)
    lines = result.stderr.splitlines()
    assert result.returncode == 2
    assert (lines[0].partition("'")[0], lines[1]) == ("error: invalid value for ", "")
    assert lines[2].endswith("rehearse fault cloud --help")


def test_version_is_printed(gpufleet, tmp_path):
    assert __version__ in gpufleet("--version", cwd=tmp_path).stdout


def test_environment_of_a_removed_rehearsal_is_reported(gpufleet, tmp_path):
    env = {"GPUFLEET_REHEARSAL": "poc", "GPUFLEET_HOME": str(tmp_path / "gone")}
    result = gpufleet("nodes", "list", cwd=tmp_path, env=env)
    assert result.returncode == 3
    assert "the rehearsal of poc that this shell points at is gone" in result.stderr
    assert not (tmp_path / "gone").exists()

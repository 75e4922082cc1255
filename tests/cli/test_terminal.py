"""Test what only a terminal gets (colours, width, progress), and the options that every command takes."""

from __future__ import annotations

import io
import json
import os
import sys
from datetime import UTC, datetime

import click
import pytest

from gpufleet import cli, progress, text_table
from gpufleet.cli import output, terminal
from gpufleet.nodes import Node
from gpufleet.operations.text.node_view import format_node_table

NOW = datetime(2026, 11, 28, tzinfo=UTC)
RED, GREEN = "\x1b[31m", "\x1b[32m"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    """Make standard output and error a terminal, within the test: pytest sets them before it."""

    def show():
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return show


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_verdicts_and_errors_have_colours_on_a_terminal(screen, monkeypatch, variables, coloured):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = screen()
    output.print_lines("blade01  ready  yes", "a node that is ready for work")
    output.print_error("no stack", "gpufleet init")
    text = shown.getvalue()
    assert (f"{GREEN}ready\x1b[0m  yes" in text, f"{RED}error:\x1b[0m no stack" in text) == (
        coloured,
        coloured,
    )
    assert "is ready for work" in text


@pytest.mark.parametrize(("forced", "coloured"), [("1", True), ("0", False), ("", False)])
def test_a_pipe_has_colours_only_by_force(gpufleet, tmp_path, forced, coloured):
    result = gpufleet("sizes", cwd=tmp_path, env={"FORCE_COLOR": forced})
    assert result.stderr.startswith(RED) is coloured


def test_wide_columns_of_text_are_cut_to_the_terminal(monkeypatch):
    rows = [("blade01", "a reason that is much longer than others", "a machine with a name", "12.5")]
    table = ("NODE", "WHY", "MACHINE", "USD/H"), rows, {"USD/H"}
    whole = text_table.align_columns(*table)
    monkeypatch.setattr(text_table, "line_width", 50)
    cut = text_table.align_columns(*table)
    assert max(map(len, whole)) > max(map(len, cut)) == 50
    assert cut[1].split()[0] == "blade01"
    assert "…" in cut[1]
    assert cut[1].endswith("12.5")
    monkeypatch.setattr(text_table, "line_width", 10)
    assert text_table.align_columns(*table)[1] == "blade01  …"


def test_equal_nodes_of_a_rack_share_a_row():
    nodes = [
        Node(str(slot), f"blade{slot:02}", "compute_blade", state, NOW, "", rack="r1", slot=str(slot))
        for slot, state in enumerate(["ready", "ready", "faulty", "ready"], 1)
    ]
    rows = [line.split("  ")[0] for line in format_node_table(nodes, folds_equal_rows=True)]
    assert rows == ["NODE", "blade[01-02]", "blade03", "blade04"]
    assert "r1/1 … r1/2" in format_node_table(nodes, folds_equal_rows=True)[1]
    assert len(format_node_table(nodes)) == 5


def test_reason_is_whole_without_a_terminal():
    node = Node("1", "blade01", "compute_blade", "faulty", NOW, "fan fails " * 20, rack="r1", slot="1")
    assert format_node_table([node])[1].endswith(("fan fails " * 20).strip())


def test_line_of_progress_is_drawn_over_and_removed(screen, monkeypatch):
    monkeypatch.setattr(progress, "current_step", "reading pulumi")
    line = terminal.ProgressLine()
    monkeypatch.setattr(terminal, "progress_line", line)
    shown = screen()
    line.draw()
    output.print_lines("done")
    line.stop()
    line.draw()
    assert shown.getvalue() == "\r\x1b[2Kgpufleet: reading pulumi (0 s)\r\x1b[2Kdone\n"


def test_run_with_its_own_display_ends_the_line_of_progress(screen, monkeypatch):
    line = terminal.ProgressLine()
    monkeypatch.setattr(terminal, "progress_line", line)
    shown = screen()
    terminal.open_progress_stream().writelines(["blade01 ok\n"])
    assert line.finished.is_set()
    assert shown.getvalue() == "blade01 ok\n"


@pytest.mark.parametrize("place", ["before", "after"])
def test_quiet_leaves_out_notes_only(gpufleet, tmp_path, place):
    arguments = ["--quiet", "init", ".", "--yes"] if place == "before" else ["init", ".", "--yes", "-q"]
    result = gpufleet(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Pulumi.yaml" in result.stdout


def test_verbose_prints_where_an_error_came_from(gpufleet, tmp_path):
    result = gpufleet("nodes", "list", "-v", cwd=tmp_path)
    assert result.stderr.startswith("Traceback")
    assert "find_project_root" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_result_is_written_to_a_file_in_the_format_of_its_name(gpufleet, tmp_path):
    for name in ("m.json", "m.txt"):
        result = gpufleet("machine", "p4d.24xlarge", "--output", name, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (0, "")
    assert json.loads((tmp_path / "m.json").read_text())["machine"] == "p4d.24xlarge"
    assert (tmp_path / "m.txt").read_text().startswith("p4d.24xlarge")


def test_failed_command_writes_no_file(gpufleet, tmp_path):
    assert gpufleet("machine", "nope", "--output", "m.json", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("gpufleet co", {"compare", "cost", "configure", "console"}),
        ("gpufleet cost estimate -s p", {"poc", "production"}),
        ("gpufleet nodes list --rack blades-", {"blades-1", "blades-poc"}),
        ("gpufleet nodes list --js", {"--json"}),
        ("gpufleet configure --limit new", {"new_nodes"}),
        ("gpufleet configure --play burn", {"burn_in"}),
        ("gpufleet prices --cloud a", {"aws", "azure"}),
        ("gpufleet nodes show b", set()),  # no registry, no word
    ],
)
def test_shell_completes_commands_options_and_names(gpufleet, shared_project, words, names):
    state = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_GPUFLEET_COMPLETE": "bash_complete",
    }
    result = gpufleet(cwd=shared_project, env=state | {"GPUFLEET_HOME": os.devnull})
    assert (result.returncode, result.stderr) == (0, "")
    assert {line.partition(",")[2] for line in result.stdout.split()} == names


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("gpufleet cost estimate", "nothing was changed"),
        ("gpufleet configure", "gpufleet configure --resume"),
        ("gpufleet nodes sync", "run it again"),
        ("gpufleet rehearse up", "gpufleet rehearse down -s STACK"),
    ],
)
def test_interruption_says_what_is_left(command, left):
    assert left in cli.describe_interruption(command)


def test_interrupted_command_ends_with_130_and_one_line(monkeypatch, capsys):
    @click.command()
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: interrupted)
    monkeypatch.setattr("sys.argv", ["gpufleet", "size"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "error: gpufleet was interrupted; nothing was changed\n"


def test_folder_that_cannot_be_used_is_one_line(monkeypatch, capsys):
    def fail(**_options):
        raise PermissionError(13, "Permission denied", "/srv/fleet/.gpufleet")

    monkeypatch.setattr(cli.gpufleet, "main", fail)
    monkeypatch.setattr("sys.argv", ["gpufleet"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 3
    assert capsys.readouterr().err.startswith("error: /srv/fleet/.gpufleet: Permission denied\n\nhint: ")


def test_table_in_a_file_is_whole(tmp_path, screen, monkeypatch):
    monkeypatch.setattr(text_table, "line_width", 20)
    screen()
    output.ReportOutput(((tmp_path / "t.txt", "table"),), None).write(
        lambda _name: "\n".join(
            text_table.align_columns(("NODE", "WHY"), [("blade01", "no answer since noon")])
        )
    )
    assert (tmp_path / "t.txt").read_text() == "NODE     WHY\nblade01  no answer since noon\n"


def test_list_continues_on_further_lines_of_a_terminal_and_is_whole_elsewhere(monkeypatch):
    entry = "the spot price of g4dn.xlarge in us-east-1 is 549 days old"
    assert text_table.format_list([entry]) == [f"  {entry}"]
    monkeypatch.setattr(text_table, "line_width", 40)
    assert text_table.format_list([entry]) == [
        "  the spot price of g4dn.xlarge in",
        "    us-east-1 is 549 days old",
    ]
    assert text_table.format_list([entry], is_cut=True) == ["  the spot price of g4dn.xlarge in us-e…"]

"""Test that text from outside is escaped on terminals, in logs and in CI systems."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpufleet import boundary, cli
from gpufleet.cli import output
from gpufleet.console.report import FleetReportData, render_report_page
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, ObservedFault, PartObservation, Registry
from gpufleet.operations import configure, playbook_run
from gpufleet.operations.text import configure as text_configure
from gpufleet.remote import display
from gpufleet.remote.progress import HostProgress, ProgressUpdate, RunProgress
from gpufleet.remote.run import RunOutcome

MODULES = Path(boundary.__file__).parents[1]
HOSTILE = (
    "x\x1b]0;owned\x07\x1b[2J\n::error::owned\r\x9b31m\u202egnp.exe\u2066\u200b##[error]owned##vso[a.b]\x7f"
)
PRINTING = re.compile(r"^(echo|secho|print|prompt|confirm|write)$")
# Files that print: the one of the command line, what shows runs, and programs of their own.
ALLOWED = {
    "start.py",  # the recorded help
    "cli/output.py",
    "cli/terminal.py",  # what output.py has made printable, and its own line of progress
    "remote/bmc/__main__.py",  # JSON into its own pipe; the parent decodes it at the gate
    "remote/display.py",  # every line through printable
    "remote/sharded_run.py",  # likewise
    "burnin/agent/journal.py",  # runs on a node; prints JSON
    "burnin/agent/main.py",
    "catalog/prices/snapshot_build.py",  # maintainers' commands on our own data
    "catalog/prices/refresh_report.py",
    "catalog/prices/snapshot_report.py",
    "fleet/schema.py",  # prints our own schema
    "nodes/template_vars.py",  # prints JSON
    "cost/inputs/program/child.py",  # flushes what a user's program printed
    "remote/shards/node_playbook.py",  # runs on a mesh node; the controller escapes its line
    "remote/shards/unit_guard.py",  # into its own pipe
    "rehearsal/launcher.py",
    "rehearsal/packages/server.py",  # its own log file
    "rehearsal/providers/__main__.py",
    "rehearsal/providers/generation/__main__.py",
    "sizing/calibration/__main__.py",
}


def writes_out(node):
    """Return whether a call prints: click's functions, print, or a write to the standard streams."""
    called = node.func
    if isinstance(called, ast.Name):
        return called.id == "print"
    if not isinstance(called, ast.Attribute) or not PRINTING.match(called.attr):
        return False
    owner = ast.unparse(called.value)
    return owner in ("click", "console", "sys.stdout", "sys.stderr") or owner.endswith("stream")


def test_only_allowed_modules_print():
    printers = set()
    for path in MODULES.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if any(writes_out(call) for call in calls):
            printers.add(path.relative_to(MODULES).as_posix())
    assert printers <= ALLOWED, "print with gpufleet.cli.output"


def assert_harmless(text):
    for line in text.split("\n"):
        assert boundary.make_printable(line, None) == line
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line


@pytest.mark.parametrize("err", [False, True])
def test_output_escapes_control_characters_and_workflow_commands(capsys, err):
    output.print_lines(HOSTILE, "::set-output name=a::b", "  ::add-mask::x", err=err)
    output.print_text_block(HOSTILE + "\n\t::group::x", err=err)
    printed = capsys.readouterr()
    assert_harmless(printed.err if err else printed.out)
    assert "owned" in (printed.err if err else printed.out)


def test_json_output_keeps_its_values(capsys):
    output.print_json({"name": HOSTILE})
    output.print_rendered(json.dumps({"name": HOSTILE}, ensure_ascii=False), as_json=True)
    printed = capsys.readouterr().out
    assert_harmless(printed)
    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(printed)
    second, _ = decoder.raw_decode(printed[end:].lstrip())
    assert first == second == {"name": HOSTILE}


@pytest.mark.parametrize("error", [InputError(HOSTILE), click.UsageError(HOSTILE)])
def test_error_messages_are_escaped(monkeypatch, capsys, error):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(cli.gpufleet, "main", fail)
    monkeypatch.setattr("sys.argv", ["gpufleet"])
    with pytest.raises(SystemExit):
        cli.main()
    assert_harmless(capsys.readouterr().err)


def test_hints_are_escaped(monkeypatch, capsys):
    def fail(**_options):
        raise EnvironmentFault("no", hint=HOSTILE)

    monkeypatch.setattr(cli.gpufleet, "main", fail)
    monkeypatch.setattr("sys.argv", ["gpufleet"])
    with pytest.raises(SystemExit):
        cli.main()
    assert_harmless(capsys.readouterr().err)


@pytest.fixture(scope="module")
def hostile_registry(tmp_path_factory):
    """Give the folder of a registry with hostile values wherever a source may write text."""
    folder = tmp_path_factory.mktemp("hostile")
    with Registry(f"sqlite:///{folder}/registry.db") as registry:
        identity = NodeIdentity(serial="S1", rack="r1", slot="1")
        facts = {"kind": "compute_blade", "address": "10.9.0.11"}
        registry.apply_observation(NodeObservation("rack:r1", "blade01", identity, declared=facts))
        observed = {"machine": HOSTILE, "model": HOSTILE, "drivers": {"installed": HOSTILE}}
        registry.apply_observation(NodeObservation("ssh", "blade01", identity, observed=observed))
        registry.set_node_hold("blade01", "operator", HOSTILE)
        registry.move_node("blade01", "discovered", HOSTILE)
        registry.add_history_entry_once(registry.get_node("blade01").id, "wiped", HOSTILE)
        report = {"node": "blade01", "verdict": "faulty", "profile": "quick", "attempt": "a1", "checks": []}
        fault = ObservedFault("xid_79", "gpu_xid", HOSTILE)
        registry.record_burn_in_result(
            "blade01", "a1", report, [], reason=HOSTILE, seen=PartObservation(faults=(fault,))
        )
    return folder


@pytest.fixture
def hostile(hostile_registry, shared_project, monkeypatch):
    monkeypatch.setenv("GPUFLEET_HOME", str(hostile_registry))
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{hostile_registry}/registry.db")
    monkeypatch.chdir(shared_project)


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", HOSTILE, "--yes"],
        ["init", "--cloud", HOSTILE],
        ["init", "--rack", HOSTILE],
        ["validate"],
        ["validate", "--json"],
        ["nodes", "list"],
        ["nodes", "list", "--fold"],
        ["nodes", "list", "--json"],
        ["nodes", "list", HOSTILE],
        ["nodes", "list", "--rack", HOSTILE],
        ["nodes", "show", "blade01"],
        ["nodes", "show", "blade01", "--json"],
        ["nodes", "history", "blade01"],
        ["nodes", "history", "blade01", "--json"],
        ["nodes", "hold", "blade01", "drift", "--reason", HOSTILE],
        ["nodes", "release", "blade01", "operator", "--reason", HOSTILE],
        ["nodes", "state", "blade01", "commissioning", "--reason", HOSTILE],
        ["nodes", "state", "blade01", HOSTILE, "--reason", "x"],
        ["nodes", "drivers"],
        ["nodes", "retire", "blade01", "--reason", HOSTILE],
        ["nodes", "replace", "blade01", "--reason", HOSTILE],
        ["nodes", "replace", HOSTILE, "--reason", HOSTILE],
        ["nodes", "sync", "-s", HOSTILE],
        ["nodes", "export", "--rack", HOSTILE],
        ["watch", "--once"],
        ["burnin", "report"],
        ["burnin", "report", HOSTILE],
        ["burnin", "rejudge"],
        ["burnin", "thresholds", "--kind", HOSTILE],
        ["repairs", "list"],
        ["repairs", "show", "blade01"],
        ["repairs", "show", "blade01", "--json"],
        ["repairs", "show", HOSTILE],
        ["repairs", "bundle", HOSTILE, "--out", HOSTILE],
        ["repairs", "record", "blade01", "reboot", "--reason", HOSTILE, "--by", HOSTILE],
        ["passport", "issue", HOSTILE, "--key", HOSTILE, "--out", HOSTILE],
        ["passport", "verify", HOSTILE, "--key", HOSTILE],
        ["configure", "--play", HOSTILE],
        ["configure", "-e", HOSTILE],
        ["cost", "estimate", "-s", HOSTILE],
        ["cost", "budget", "--budget", HOSTILE],
        ["machine", HOSTILE],
        ["quota", "-s", HOSTILE],
        ["prices", HOSTILE],
        ["prices", "check", HOSTILE],
        ["size", "--model", HOSTILE],
        ["compare", HOSTILE],
        ["rehearse", "status", "-s", HOSTILE],
        ["console", "-s", HOSTILE, "--html", HOSTILE + "/x"],
    ],
    ids=lambda arguments: " ".join(argument for argument in arguments if argument != HOSTILE),
)
def test_output_of_every_command_is_escaped(hostile, monkeypatch, capsys, arguments):
    monkeypatch.setattr("sys.argv", ["gpufleet", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert exit_info.value.code in (None, 0, 1, 2, 3)
    assert_harmless(printed.out)
    assert_harmless(printed.err)


def test_every_command_is_in_the_list_of_escaped_commands():
    cases = test_output_of_every_command_is_escaped.pytestmark[0].args[1]
    assert {arguments[0] for arguments in cases} | {"doctor"} == set(cli.VERBS)


def outcome(tmp_path):
    hosts = (HostProgress(HOSTILE, "failed", 1, 0, HOSTILE, HOSTILE), HostProgress("b", "ok"))
    return RunOutcome("r1", "site", tmp_path, hosts, (), (HOSTILE,), interrupted=True, completed=False)


def test_summary_of_a_run_is_escaped(tmp_path, capsys):
    run = outcome(tmp_path)
    outcomes = tuple(configure.HostOutcome(host.name, host.status, host.reason, 0) for host in run.hosts)
    result = configure.ConfigureResult(playbook_run.PlaybookRequest(), outcomes, run)
    output.print_result(
        False, result, configure.ConfigureResult.as_json, text_configure.format_configure_result
    )
    assert_harmless(capsys.readouterr().out)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress_is_escaped(stream):
    host = HostProgress(f"{HOSTILE}[/bold][link=file:///etc/passwd]", "failed", 1, 0, HOSTILE, HOSTILE)
    progress, display_output = RunProgress({host.name: host}, ("a",), ()), stream()
    board = display.open_run_display(progress, display_output)
    board.show_update(ProgressUpdate(host.name, "failed", 1, HOSTILE, HOSTILE))
    board.show_update(ProgressUpdate(host.name, "ok", 1, HOSTILE))
    board.close_display()
    text = re.sub(r"\x1b\[[0-9]*[FK]", "", display_output.getvalue())  # the cursor moves of a table
    for line in text.split("\n"):
        assert boundary.make_printable(line, None) == line
    assert "owned" in text


def test_html_page_is_escaped():
    node = {
        "name": f"{HOSTILE}<script>alert(1)</script>", "state": "quarantined", "holds": [], "kind": "server",
        "reachable": False, "reachable_detail": HOSTILE, "rack": HOSTILE, "slot": "1", "cloud": None,
        "region": None, "pool": None, "template": None, "address": HOSTILE, "accelerators": [],
        "usd_per_hour": None, "id": "n1", "sources": [],
    }  # fmt: skip
    page = render_report_page(FleetReportData(HOSTILE, "2026-01-01", [node]))
    assert "<script>alert(1)" not in page
    for line in page.split("\n"):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", line)


def test_prompts_are_escaped():
    @click.command()
    def asks():
        output.prompt_for_text(HOSTILE)
        output.ask_for_confirmation(HOSTILE)

    result = CliRunner().invoke(asks, input="a\ny\n")
    assert result.exit_code == 0
    assert_harmless(result.stderr.replace("\r", ""))

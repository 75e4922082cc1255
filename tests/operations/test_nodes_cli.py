"""Test ``gpufleet nodes`` in a project, with exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.cli.nodes import nodes_command
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.operations import node_view
from gpufleet.operations.text import node_view as text_node_view

STATE = Path(__file__).parents[1] / "cases/nodes/state-production.json"


@pytest.fixture
def run_nodes_command(repo_root, tmp_path, monkeypatch):
    """Run a verb of ``gpufleet nodes`` in this project with a registry of the test's own."""
    monkeypatch.chdir(repo_root)
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path / "home"))
    for name in ("GPUFLEET_DATABASE_URL", "GPUFLEET_ADDRESS_BOOK", "GPUFLEET_REHEARSAL"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(nodes_command, [str(argument) for argument in arguments])


@pytest.fixture
def nodes_after_sync(run_nodes_command):
    """The same, after a sync of production."""
    assert run_nodes_command("sync", "-s", "production", "--state", STATE).exit_code == 0
    return run_nodes_command


def test_sync_prints_a_line_for_each_source(run_nodes_command):
    result = run_nodes_command("sync", "-s", "production", "--state", STATE)
    assert result.stdout.splitlines() == [
        "rack:blades-1: 20 nodes, 20 new", "rack:bench-1: 1 nodes, 1 new", "pulumi:production: 3 nodes, 3 new",
    ]  # fmt: skip


def test_failed_source_is_reported_and_exits_with_1(run_nodes_command, tmp_path):
    result = run_nodes_command("sync", "-s", "production", "--state", tmp_path / "none.json")
    assert isinstance(result.exception, CheckFailed)
    assert "pulumi:production failed:" in result.stderr
    assert "rack:blades-1: 20 nodes" in result.stdout


def test_unknown_stack_creates_no_registry(run_nodes_command, tmp_path):
    assert isinstance(run_nodes_command("sync", "-s", "nope").exception, InputError)
    assert not (tmp_path / "home").exists()


def test_list_before_a_sync_names_the_next_command(run_nodes_command):
    fault = run_nodes_command("list").exception
    assert isinstance(fault, EnvironmentFault)
    assert "gpufleet nodes sync" in fault.hint


def test_list_filters_and_expands_names(nodes_after_sync):
    names = [node["name"] for node in json.loads(nodes_after_sync("list", "blade[01-03]", "--json").stdout)]
    assert names == ["blade01", "blade02", "blade03"]
    assert len(json.loads(nodes_after_sync("list", "--rack", "bench-1", "--json").stdout)) == 1
    assert len(json.loads(nodes_after_sync("list", "--state", "discovered", "--json").stdout)) == 3
    assert [n["pool"] for n in json.loads(nodes_after_sync("list", "--pool", "tune", "--json").stdout)] == [
        "tune"
    ]


def test_list_is_grouped_by_state(nodes_after_sync):
    lines = nodes_after_sync("list", "--fold").stdout.splitlines()
    assert lines[0].split() == ["expected", "21", "bench01,blade[01-20]"]
    assert lines[1].split()[:2] == ["discovered", "3"]


def test_list_table_has_a_line_for_each_node(nodes_after_sync):
    lines = nodes_after_sync("list").stdout.splitlines()
    assert lines[0].startswith("NODE ")
    assert len(lines) == 25


@pytest.mark.parametrize(
    "arguments", [("list", "blade99"), ("list", "--state", "asleep"), ("list", "blade[1")]
)
def test_unknown_name_or_state_is_an_input_error(nodes_after_sync, arguments):
    assert isinstance(nodes_after_sync(*arguments).exception, InputError)


def test_show_prints_source_and_age_of_every_value(nodes_after_sync):
    details = json.loads(nodes_after_sync("show", "blade07", "--json").stdout)
    assert {value["source"] for value in details["values"]} == {"rack:blades-1"}
    assert all(value["age"].endswith("s") for value in details["values"])
    assert "rack:blades-1" in nodes_after_sync("show", "blade07").stdout


def test_moves_and_holds_are_in_the_history(nodes_after_sync):
    nodes_after_sync("hold", "blade01", "cost", "--reason", "over budget")
    nodes_after_sync("state", "blade01", "retired", "--reason", "sold")
    nodes_after_sync("release", "blade01", "cost", "--reason", "gone")
    events = [
        change["event"] for change in json.loads(nodes_after_sync("history", "blade01", "--json").stdout)
    ]
    assert events == ["created", "hold", "state", "release"]
    assert "expected -> retired" in nodes_after_sync("history", "blade01").stdout


def test_illegal_move_is_refused_with_the_legal_ones(nodes_after_sync):
    refused = nodes_after_sync("state", "blade01", "ready", "--reason", "trust me").exception
    assert isinstance(refused, InputError)
    assert "from expected: discovered, retired" in str(refused)


def test_change_needs_a_reason(nodes_after_sync):
    assert nodes_after_sync("state", "blade01", "retired").exit_code == 2


@pytest.mark.parametrize(("seconds", "text"), [(5, "5s"), (90, "1m"), (7300, "2h"), (200_000, "2d")])
def test_ages_are_printed_in_their_largest_unit(seconds, text):
    from datetime import UTC, datetime, timedelta

    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert node_view.format_age(at - timedelta(seconds=seconds), at) == text


def test_change_accepts_the_ranges_that_list_prints(nodes_after_sync):
    result = nodes_after_sync("hold", "blade[01-02]", "cost", "--reason", "over budget")
    assert result.stderr.splitlines() == ["blade01: cost hold set", "blade02: cost hold set"]
    assert (
        "stands already" in nodes_after_sync("hold", "blades-1/1", "cost", "--reason", "over budget").stderr
    )
    assert (
        nodes_after_sync("release", "blade[01-02]", "cost", "--reason", "paid").stderr.count("released") == 2
    )


def test_range_moves_completely_or_not_at_all(nodes_after_sync):
    nodes_after_sync("state", "blade02", "retired", "--reason", "sold")
    assert isinstance(
        nodes_after_sync("state", "blade[01-02]", "discovered", "--reason", "x").exception, InputError
    )
    assert json.loads(nodes_after_sync("list", "blade01", "--json").stdout)[0]["state"] == "expected"


@pytest.mark.parametrize(("option", "message"), [("--rack", "bench-1, blades-1"), ("--pool", "tune")])
def test_unknown_rack_or_pool_is_refused_with_the_known_ones(nodes_after_sync, option, message):
    refused = nodes_after_sync("list", option, "nope").exception
    assert isinstance(refused, InputError)
    assert message in str(refused)


def test_history_is_sorted_by_time():
    from datetime import UTC, datetime

    from gpufleet.nodes import NodeHistoryEntry

    late = NodeHistoryEntry("n", datetime(2026, 1, 1, tzinfo=UTC), "state", None, "ready", "", None, 2)
    early = NodeHistoryEntry("n", datetime(2026, 1, 2, tzinfo=UTC), "state", None, "ready", "", None, 1)
    assert node_view.sort_history_by_time([early, late]) == [late, early]


def test_long_value_moves_only_its_own_source_column():
    expected = {"source": "ansible", "age": "0s"}
    values = [
        {"key": "observed.blade", "value": "x" * 400, **expected},
        {"key": "observed.os", "value": "debian", **expected},
    ]
    details = {"name": "blade01", "id": "n-1", "hold_reasons": {}, "conflicts": [], "values": values}
    details |= dict.fromkeys(
        ("kind", "state", "state_reason", "state_since", "reachable", "reachable_detail", "address")
    )
    long, short = text_node_view.format_node_details(details)[-2:]
    assert len(short) < 100 < len(long)
    assert short.split() == ["observed.os", "debian", "ansible", "0s", "ago"]


def test_changes_are_json_on_request(nodes_after_sync):
    options = ("blade[01-02]", "cost", "--reason", "over budget", "--json")
    expected = [{"node": name, "outcome": "cost hold set"} for name in ("blade01", "blade02")]
    assert json.loads(nodes_after_sync("hold", *options).stdout) == expected
    released = json.loads(nodes_after_sync("release", *options).stdout)
    assert [change["outcome"] for change in released] == ["cost hold released"] * 2

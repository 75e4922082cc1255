"""Test nodes as text: tables, folded lists, details and history."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.errors import InputError
from gpufleet.nodes.model import (
    Node,
    NodeHistoryEntry,
    NodeHold,
    SourceConflict,
    SourcedValue,
    SourcePresence,
)
from gpufleet.operations import node_view
from gpufleet.operations.text import node_view as text_node_view

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
LOST = (SourcePresence("rack:r1", AT, AT),)


def node(name, **changed):
    plain = {
        "id": f"n-{name}",
        "kind": "compute_blade",
        "state": "ready",
        "state_since": AT,
        "state_reason": "passed",
    }
    return Node(name=name, **{**plain, **changed})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (86_400, "1d"),
     (900_000, "10d")],
)  # fmt: skip
def test_age_is_printed_in_its_largest_unit(seconds, text):
    assert node_view.format_age(AT, AT + timedelta(seconds=seconds)) == text


def test_names_are_folded():
    names = ["blade02", "bench01", "blade01", "blade04"]
    assert node_view.fold_names_to_ranges(names) == "bench01,blade[01-02,04]"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["blade[0-9999999]"], "expands to more than 20,000 names; write a smaller range"),
        (["a[0-999]b[0-999]"], "expands to more than 20,000 names; write a smaller range"),
        (["a[1-15000]", "b[1-15000]"], "expands to more than 20,000 names; write a smaller range"),
        (["blade[01-"], "has a bracket without its pair; write ranges like blade[01-20]"),
        (["blade[0-99999999999]"], "like blade[01-20]"),
        (["blade[x-y]"], "is not a name or a range of names; write names or ranges like blade[01-20]"),
        (["blade[9-1]"], "is not a range of names; write a range like blade[01-20]"),
        (["blade[\x1b-2]"], "is not a name or a range of names; write names or ranges like blade[01-20]"),
        ([""], "names no host"),
        (["!b1"], "names no node to take"),
        (["b1@all"], "no node b1@all"),
    ],
)
def test_names_that_are_no_names_are_one_printable_line(names, problem):
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        node_view.NodeFilter(names=tuple(names)).select_nodes(FLEET)
    assert str(caught.value).isprintable()
    assert caught.value.exit_code == 2


def test_nodes_are_grouped_by_state_in_lifecycle_order():
    nodes = [node("b2", state="ready"), node("a", state="expected"), node("b1", state="ready")]
    assert text_node_view.format_nodes_by_state(nodes) == [
        "expected          1  a",
        "ready             2  b[1-2]",
    ]


FLEET = [
    node("b1", rack="r1", pool=None), node("b2", rack="r1", state="repair"), node("t1", pool="train", state="expected"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["b1", "b2", "t1"]),
        ({"rack": "r1"}, ["b1", "b2"]),
        ({"pool": "train"}, ["t1"]),
        ({"state": "repair"}, ["b2"]),
        ({"rack": "r1", "state": "ready"}, ["b1"]),
        ({"state": "quarantined"}, []),
        ({"names": ("b[1-2]",)}, ["b1", "b2"]),
        ({"names": ("n-t1",)}, ["t1"]),
        ({"names": ("b[1-2]:!b2",)}, ["b1"]),
        ({"names": ("b[1-2]", "t1", "!n-b2")}, ["b1", "t1"]),
        ({"names": ("b1,t1,&b[1-2]",)}, ["b1"]),
        ({"names": ("b1", "t1"), "state": "ready"}, ["b1"]),
    ],
)
def test_filter_selects_matching_nodes(options, names):
    assert [node.name for node in node_view.NodeFilter(**options).select_nodes(FLEET)] == names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "broken"}, "--state: unknown state 'broken'; "),
        ({"rack": "r9"}, "--rack: no node of rack 'r9'; there is: r1"),
        ({"pool": "x"}, "--pool: no node of pool 'x'; there is: train"),
        (
            {"names": ("quarantined",)},
            "no node quarantined; for the nodes in that state: --state quarantined",
        ),
        ({"names": ("b[1-3]",)}, "no node b3; see: gpufleet nodes list"),
    ],
)
def test_filter_with_an_unknown_name_is_refused(options, message):
    with pytest.raises(InputError) as excinfo:
        node_view.NodeFilter(**options).select_nodes(FLEET)
    assert str(excinfo.value).startswith(message)


def test_table_has_a_column_for_every_known_value():
    nodes = [
        node("b1", rack="r1", slot="3", machine="CM4", address="10.0.0.3", reachable=True, usd_per_hour=0.012345,
             accelerators=({"model": "T4", "count": 2}, {"model": "L4", "count": 1}),
             holds=(NodeHold("security", "x", AT), NodeHold("operator", "y", AT))),
        node("vm", cloud="aws", region="us-east-1", reachable=False, reachable_detail="timed\n out", sources=LOST),
        node("x", reachable=False),
    ]  # fmt: skip
    head, *rows = text_node_view.format_node_table(nodes)
    assert head.split() == list(text_node_view.COLUMNS)
    assert [[c.strip() for c in row.split("  ") if c.strip()] for row in rows] == [
        [
            "b1",
            "ready",
            "security,operator",
            "yes",
            "r1/3",
            "CM4",
            "2x T4, 1x L4",
            "10.0.0.3",
            "0.01235",
            "passed",
        ],
        ["vm", "ready (missing)", "-", "no", "aws us-east-1", "-", "-", "-", "-", "timed out"],
        ["x", "ready", "-", "no", "-", "-", "-", "-", "-", "no answer"],
    ]
    assert {row.index("ready") for row in rows} == {head.index("STATE")}


def test_reachability_is_yes_no_or_unknown():
    assert [
        text_node_view.format_reachability(node("a", reachable=value)) for value in (True, False, None)
    ] == [
        "yes",
        "no",
        "-",
    ]


def test_details_have_source_and_age_of_every_value(monkeypatch):
    monkeypatch.setattr(node_view, "utc_now", lambda: AT + timedelta(hours=5))
    seen = {"reachable_at": AT, "reachable": True, "holds": (NodeHold("operator", "look", AT),)}
    blade = node("b1", serial="S1", instance_id="i", machine="CM4", **seen)
    conflicts = [
        SourceConflict("name", "b1", "two are called b1", "rack:r1", ("n-b1", "n-x"), AT),
        SourceConflict("name", "y", "others", "rack:r1", ("n-y",), AT),
    ]
    details = node_view.build_node_details(
        blade, [SourcedValue("ssh", "observed.arch", "aarch64", AT)], conflicts
    )
    assert details["values"] == [
        {
            "key": "observed.arch",
            "value": "aarch64",
            "source": "ssh",
            "observed_at": "2026-11-21T10:00:00.000Z",
            "age": "5h",
        }
    ]
    assert details["conflicts"] == ["two are called b1"]
    assert details["hold_reasons"] == {"operator": "look"}
    assert (details["serial"], details["instance_id"], details["machine"], details["missing"]) == (
        "S1",
        "i",
        "CM4",
        False,
    )
    assert (details["state_since"], details["state_reason"]) == ("2026-11-21T10:00:00.000Z", "passed")
    assert (details["reachable_at"], details["reachable_detail"]) == ("2026-11-21T10:00:00.000Z", None)
    assert text_node_view.format_node_details(details) == [
        "b1",
        "  id                n-b1",
        "  kind              compute_blade",
        "  state             ready",
        "  state_reason      passed",
        "  state_since       2026-11-21T10:00:00.000Z",
        "  reachable         True",
        "  hold              operator: look",
        "  conflict          two are called b1",
        "    observed.arch  aarch64  ssh  5h ago",
    ]


def test_history_is_in_event_order():
    late = NodeHistoryEntry("n", AT + timedelta(minutes=5), "state", None, "expected", "declared", None, 1)
    early = NodeHistoryEntry("n", AT, "state", "expected", "discovered", "answered", "a1", 2)
    note = NodeHistoryEntry("n", AT, "wiped", None, None, "{}", None, 3)
    assert node_view.sort_history_by_time([late, note, early]) == [early, note, late]
    lines = [
        text_node_view.format_history_entry(node_view.history_entry_as_json(entry))
        for entry in (late, early, note)
    ]
    assert lines == [
        "2026-11-21T10:05:00.000Z  (new) -> expected             declared",
        "2026-11-21T10:00:00.000Z  expected -> discovered        answered  [a1]",
        "2026-11-21T10:00:00.000Z  wiped                         {}",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456789, "0.1235"),
        (123456.7, "123,457"),
        ({"port": 9100, "is_up": True, "rates": [1.0, 2.5]}, "port=9100, is_up=yes, rates=1, 2.5"),
        ({}, "-"),
        (None, "-"),
        ("text", "text"),
    ],
)
def test_recorded_values_are_written_for_people(value, text):
    assert text_node_view.format_value(value) == text

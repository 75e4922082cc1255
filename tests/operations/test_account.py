"""Test the result of a sync: text, JSON and exit code."""

from __future__ import annotations

import pytest

from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import ReportOutcome
from gpufleet.nodes.node_index import IdentityContradiction
from gpufleet.operations.node_probe import NodeProbeReport
from gpufleet.operations.source_outcome import STALE
from gpufleet.operations.sync import SyncOptions, SyncResult

TWICE = IdentityContradiction("serial_twice", "S1", "serial S1 is claimed by a, b", ())


def build_sync_result(**more):
    outcomes = [
        ReportOutcome("rack:r1", 3, created=["a", "b"], missing=["c", "d"]),
        ReportOutcome("pulumi:dev", 1),
        ReportOutcome("address_book", 2, stale=True, conflicts=[TWICE], bad=["node x: no name"]),
    ]
    return SyncResult(outcomes, **more)


def test_summary_has_a_line_for_each_source():
    reach = NodeProbeReport(answered=["a", "b"], unreachable={"c": "timed out"})
    assert list(build_sync_result(reach=reach).format_summary_lines()) == [
        "rack:r1: 3 nodes, 2 new, missing: c, d",
        "pulumi:dev: 1 nodes",
        f"address_book: {STALE}",
        "ssh: 2 answer, 1 do not",
    ]
    assert len(list(build_sync_result().format_summary_lines())) == 3


def test_warnings_are_listed_with_remedies():
    reach = NodeProbeReport(unreachable={"c": "timed out"}, conflicts=["c shows another serial"])
    failures = {
        "aws:x": EnvironmentFault("no credentials", hint="aws configure"),
        "rack:r2": InputError("is empty"),
    }
    assert list(build_sync_result(reach=reach, notes=["one note"], failures=failures).list_warnings()) == [
        "one note",
        "conflict: serial S1 is claimed by a, b",
        "left out: node x: no name",
        "c does not answer: timed out",
        "conflict: c shows another serial",
        "aws:x failed: no credentials (aws configure)",
        "rack:r2 failed: is empty",
    ]


def test_json_summary_is_complete():
    result = build_sync_result(
        reach=NodeProbeReport(unreachable={"c": "timed out"}), failures={"aws:x": InputError("is empty")}
    ).as_json()
    assert result["sources"][0] == {
        "source": "rack:r1", "nodes": 3, "created": ["a", "b"], "missing": ["c", "d"], "conflicts": [], "stale": False,
        "bad": [],
    }  # fmt: skip
    assert result["sources"][2]["conflicts"] == ["serial S1 is claimed by a, b"]
    assert (result["sources"][2]["stale"], result["sources"][2]["bad"]) == (True, ["node x: no name"])
    assert (result["failures"], result["unreachable"]) == ({"aws:x": "is empty"}, {"c": "timed out"})
    assert build_sync_result().as_json()["unreachable"] == {}


@pytest.mark.parametrize(
    ("account", "no"),
    [
        (SyncResult([ReportOutcome("a")]), None),
        (SyncResult([ReportOutcome("a")], reach=NodeProbeReport(unreachable={"c": "x"})), None),
        (
            SyncResult([ReportOutcome("a")], reach=NodeProbeReport(conflicts=["x"])),
            "sources contradict each other",
        ),
        (
            SyncResult([ReportOutcome("a"), ReportOutcome("b", conflicts=[TWICE])]),
            "sources contradict each other",
        ),
        (
            SyncResult([], {"a": InputError("x"), "b": InputError("y")}),
            "not synced: a, b; their last good report remains valid",
        ),
        (SyncResult([ReportOutcome("b", conflicts=[TWICE])], {"a": InputError("x")}), "not synced: a;"),
    ],
)
def test_failed_or_contradicting_source_exits_with_1(account, no):
    if no is None:
        account.raise_if_incomplete()
        return
    with pytest.raises(CheckFailed, match=no):
        account.raise_if_incomplete()


def test_address_book_defaults_to_the_one_of_the_rehearsal(tmp_path):
    book = tmp_path / "book.json"
    set_ = {"GPUFLEET_ADDRESS_BOOK": str(book)}
    assert SyncOptions(environment=set_).address_book_file is None
    book.write_text("{}")
    assert SyncOptions(environment=set_).address_book_file == book
    assert SyncOptions(environment=set_, address_book=tmp_path / "own").address_book_file == tmp_path / "own"
    assert SyncOptions(environment={}).address_book_file is None

"""What a sync answers: lines for people, the account for programs, and when the answer is no."""

from __future__ import annotations

import pytest

from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import Outcome
from gpufleet.nodes.node_index import Contradiction
from gpufleet.operations.node_probe import ReachReport
from gpufleet.operations.sync import STALE, SyncOptions, SyncResult

TWICE = Contradiction("serial_twice", "S1", "serial S1 is claimed by a, b", ())


def synced(**more):
    outcomes = [
        Outcome("rack:r1", 3, created=["a", "b"], missing=["c", "d"]),
        Outcome("pulumi:dev", 1),
        Outcome("address_book", 2, stale=True, conflicts=[TWICE], bad=["node x: no name"]),
    ]
    return SyncResult(outcomes, **more)


def test_a_line_for_each_source_that_answered():
    reach = ReachReport(answered=["a", "b"], unreachable={"c": "timed out"})
    assert list(synced(reach=reach).summary_lines()) == [
        "rack:r1: 3 nodes, 2 new, missing: c, d",
        "pulumi:dev: 1 nodes",
        f"address_book: {STALE}",
        "ssh: 2 answer, 1 do not",
    ]
    assert len(list(synced().summary_lines())) == 3


def test_warnings_for_a_person():
    reach = ReachReport(unreachable={"c": "timed out"}, conflicts=["c shows another serial"])
    failures = {
        "aws:x": EnvironmentFault("no credentials", hint="aws configure"),
        "rack:r2": InputError("is empty"),
    }
    assert list(synced(reach=reach, notes=["one note"], failures=failures).warnings()) == [
        "one note",
        "conflict: serial S1 is claimed by a, b",
        "left out: node x: no name",
        "c does not answer: timed out",
        "conflict: c shows another serial",
        "aws:x failed: no credentials (aws configure)",
        "rack:r2 failed: is empty",
    ]


def test_the_json_summary_is_complete():
    result = synced(
        reach=ReachReport(unreachable={"c": "timed out"}), failures={"aws:x": InputError("is empty")}
    ).as_json()
    assert result["sources"][0] == {
        "source": "rack:r1", "nodes": 3, "created": ["a", "b"], "missing": ["c", "d"], "conflicts": [], "stale": False,
        "bad": [],
    }  # fmt: skip
    assert result["sources"][2]["conflicts"] == ["serial S1 is claimed by a, b"]
    assert (result["sources"][2]["stale"], result["sources"][2]["bad"]) == (True, ["node x: no name"])
    assert (result["failures"], result["unreachable"]) == ({"aws:x": "is empty"}, {"c": "timed out"})
    assert synced().as_json()["unreachable"] == {}


@pytest.mark.parametrize(
    ("account", "no"),
    [
        (SyncResult([Outcome("a")]), None),
        (SyncResult([Outcome("a")], reach=ReachReport(unreachable={"c": "x"})), None),
        (SyncResult([Outcome("a")], reach=ReachReport(conflicts=["x"])), "sources contradict each other"),
        (SyncResult([Outcome("a"), Outcome("b", conflicts=[TWICE])]), "sources contradict each other"),
        (
            SyncResult([], {"a": InputError("x"), "b": InputError("y")}),
            "not synced: a, b; their last good report stays",
        ),
        (SyncResult([Outcome("b", conflicts=[TWICE])], {"a": InputError("x")}), "not synced: a;"),
    ],
)
def test_a_failed_or_contradicting_source_is_an_answer_of_no(account, no):
    if no is None:
        account.raise_for_failures()
        return
    with pytest.raises(CheckFailed, match=no):
        account.raise_for_failures()


def test_the_address_book_is_the_given_one_else_the_rehearsals_that_is_there(tmp_path):
    book = tmp_path / "book.json"
    set_ = {"GPUFLEET_ADDRESS_BOOK": str(book)}
    assert SyncOptions(environment=set_).address_book_file is None
    book.write_text("{}")
    assert SyncOptions(environment=set_).address_book_file == book
    assert SyncOptions(environment=set_, address_book=tmp_path / "own").address_book_file == tmp_path / "own"
    assert SyncOptions(environment={}).address_book_file is None

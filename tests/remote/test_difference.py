"""Test the lines of Ansible's differences: bounded and printable, whatever a host reports."""

from __future__ import annotations

import pytest

from gpufleet.remote.difference import MAX_LINES, extract_task_difference


def lines_of(diff, **more):
    difference = extract_task_difference("t", {"changed": True, "diff": diff, **more})
    return difference and list(difference.lines)


def test_texts_are_compared_line_by_line():
    diff = {"before_header": "/etc/a", "after_header": "/etc/a", "before": "one\ntwo\n", "after": "one\n2\n"}
    assert lines_of([diff]) == [
        "--- before: /etc/a",
        "+++ after: /etc/a",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]


def test_mappings_are_compared_by_key():
    diff = {"before": {"mode": "0600", "path": "/a"}, "after": {"mode": "0644", "path": "/a"}}
    assert lines_of(diff)[-3:] == ["-mode: 0600", "+mode: 0644", " path: /a"]


@pytest.mark.parametrize(
    "diff", [None, [], {}, "text", 7, [None], {"before": "a"}, {"before": "a", "after": "a"}]
)
def test_result_without_a_difference_has_none(diff):
    assert lines_of(diff) is None
    assert extract_task_difference("t", {"changed": False, "diff": {"before": "a", "after": "b"}}) is None


def test_unchanged_items_of_a_loop_are_left_out():
    items = [{"changed": changed, "diff": {"prepared": f"{changed}"}} for changed in (True, False)]
    assert lines_of(None, results=[*items, "not a result"]) == ["True"]


def test_long_and_hostile_text_is_bounded_and_printable():
    lines = lines_of({"before": "", "after": "\x1b[31m\tred" * 100 + "\nx" * 1000})
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "(805 more lines)" or lines[-1].endswith("more lines)")
    assert max(map(len, lines)) < 400
    assert all(line.isprintable() for line in lines)
    assert lines_of({"before": "", "after": "y\n" * 200_000, "after_header": "/b"}) == [
        "/b: too large to compare"
    ]

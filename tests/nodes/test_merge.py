from __future__ import annotations

import pytest

from gpufleet.nodes import Value
from gpufleet.nodes.merge import FIELDS, merge


def values(lab, *claims):
    return [Value(source, key, value, lab.minutes(at)) for source, key, value, at in claims]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("machine", "declared"),
        ("name", "declared"),
        ("pool", "declared"),
        ("instance_id", "observed"),
        ("address", "observed"),
    ],
)
def test_we_decide_some_fields_and_the_world_the_others(lab, field, expected):
    candidates = values(
        lab, ("a", f"declared.{field}", "declared", 1), ("b", f"observed.{field}", "observed", 9)
    )
    assert merge(candidates)[field] == expected


def test_among_equals_the_newest_wins(lab):
    candidates = values(
        lab, ("pulumi:a", "observed.address", "new", 9), ("aws:b", "observed.address", "old", 1)
    )
    assert merge(candidates)["address"] == "new"


@pytest.mark.parametrize("source", ["ansible", "burn_in", "configuration", "ssh"])
def test_a_node_cannot_say_where_it_is_to_be_reached(lab, source):
    candidates = values(
        lab, (source, "observed.address", "198.51.100.66", 9), (source, "observed.pool", "mine", 9)
    )
    assert (merge(candidates)["address"], merge(candidates)["pool"]) == (None, None)


def test_a_source_that_lost_the_node_comes_last(lab):
    candidates = values(
        lab, ("pulumi:a", "declared.pool", "gone", 9), ("pulumi:b", "declared.pool", "here", 1)
    )
    assert merge(candidates, lost_sources={"pulumi:a"})["pool"] == "here"
    assert merge(candidates[:1], lost_sources={"pulumi:a"})["pool"] == "gone"


def test_a_placeholder_serial_is_none(lab):
    assert merge(values(lab, ("ssh", "observed.serial", "Not Specified", 1)))["serial"] is None


def test_nothing_known_is_none_not_invented():
    merged = merge([])
    assert set(merged) == set(FIELDS)
    assert {key: value for key, value in merged.items() if value is not None} == {"accelerators": []}

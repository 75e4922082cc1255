from __future__ import annotations

import pytest

from gpufleet.nodes import SourcedValue
from gpufleet.nodes.merge import FIELDS, merge_sourced_values


def values(lab, *claims):
    return [SourcedValue(source, key, value, lab.minutes(at)) for source, key, value, at in claims]


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
def test_declared_or_observed_value_has_priority_by_field(lab, field, expected):
    candidates = values(
        lab, ("a", f"declared.{field}", "declared", 1), ("b", f"observed.{field}", "observed", 9)
    )
    assert merge_sourced_values(candidates)[field] == expected


def test_newest_value_is_used_among_equal_sources(lab):
    candidates = values(
        lab, ("pulumi:a", "observed.address", "new", 9), ("aws:b", "observed.address", "old", 1)
    )
    assert merge_sourced_values(candidates)["address"] == "new"


@pytest.mark.parametrize("source", ["ansible", "burn_in", "configuration", "ssh"])
def test_node_cannot_change_its_own_address(lab, source):
    candidates = values(
        lab, (source, "observed.address", "198.51.100.66", 9), (source, "observed.pool", "mine", 9)
    )
    assert (merge_sourced_values(candidates)["address"], merge_sourced_values(candidates)["pool"]) == (
        None,
        None,
    )


def test_source_that_no_longer_reports_the_node_has_lowest_priority(lab):
    candidates = values(
        lab, ("pulumi:a", "declared.pool", "gone", 9), ("pulumi:b", "declared.pool", "here", 1)
    )
    assert merge_sourced_values(candidates, lost_sources={"pulumi:a"})["pool"] == "here"
    assert merge_sourced_values(candidates[:1], lost_sources={"pulumi:a"})["pool"] == "gone"


def test_placeholder_serial_is_none(lab):
    assert merge_sourced_values(values(lab, ("ssh", "observed.serial", "Not Specified", 1)))["serial"] is None


def test_unknown_values_are_none():
    merged = merge_sourced_values([])
    assert set(merged) == set(FIELDS)
    assert {key: value for key, value in merged.items() if value is not None} == {"accelerators": []}

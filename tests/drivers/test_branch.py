"""Test which branch is preferred and when a branch has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.drivers import branch as module
from gpufleet.drivers import data_file


def replace_branches(monkeypatch, **rows):
    """Replace the table of branches: number to (kind, month of end of life)."""
    template = next(iter(data_file.load_driver_branches().values()))
    branches = {
        int(number[1:]): replace(template, number=int(number[1:]), kind=kind, end_of_life=end_of_life)
        for number, (kind, end_of_life) in rows.items()
    }
    monkeypatch.setattr(module, "load_driver_branches", lambda: branches)
    return branches


@pytest.mark.parametrize(
    ("kind", "end_of_life", "date", "has_ended"),
    [
        ("lts", "2026-06", "2026-06-30", False),  # the month in which it ends still counts
        ("lts", "2026-06", "2026-07-01", True),
        ("lts", "2026-06", "2026-05-31", False),
        ("lts", "", "2030-01-01", False),
        ("lts", "2026-06", "", False),
        ("ended", "2026-06", "2020-01-01", True),
        ("ended", "", "", True),
        ("new_feature", "", "2030-01-01", False),
    ],
)
def test_branch_has_ended_after_its_last_month(monkeypatch, kind, end_of_life, date, has_ended):
    branches = replace_branches(monkeypatch, b1=(kind, end_of_life))
    assert module.is_driver_branch_end_of_life(branches[1], date) is has_ended


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"b535": ("lts", "2099-01"), "b580": ("lts", "2099-01")}, 580),
        ({"b535": ("lts", "2099-01"), "b595": ("production", "2099-01")}, 535),
        ({"b590": ("new_feature", ""), "b580": ("production", "2099-01")}, 580),
        ({"b535": ("lts", "2020-01"), "b590": ("new_feature", "")}, 590),
        ({"b470": ("ended", "2024-09"), "b390": ("ended", "2022-12")}, 470),
        ({}, None),
    ],
)
def test_maintained_branches_are_sorted_before_long_term_support(monkeypatch, rows, expected):
    branches = replace_branches(monkeypatch, **rows)
    assert module.choose_preferred_driver_branch(sorted(branches), "2026-11-21") == expected
    assert module.choose_preferred_driver_branch(sorted(branches, reverse=True), "2026-11-21") == expected

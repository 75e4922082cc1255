"""Which branch is preferred, and when one has ended."""

from __future__ import annotations

import pytest

from gpufleet.drivers import branch as module
from gpufleet.drivers import tables


def known(monkeypatch, **rows):
    """Let there be these branches: number to (kind, the month in which it ends)."""
    some = next(iter(tables.branches().values()))
    table = {
        int(number[1:]): type(some)(
            **{**vars_of(some), "number": int(number[1:]), "kind": kind, "end_of_life": end}
        )
        for number, (kind, end) in rows.items()
    }
    monkeypatch.setattr(module, "branches", lambda: table)
    return table


def vars_of(row):
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@pytest.mark.parametrize(
    ("kind", "end", "date", "over"),
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
def test_a_branch_has_ended_after_its_last_month(monkeypatch, kind, end, date, over):
    table = known(monkeypatch, b1=(kind, end))
    assert module.ended(table[1], date) is over


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ({"b535": ("lts", "2099-01"), "b580": ("lts", "2099-01")}, 580),
        ({"b535": ("lts", "2099-01"), "b595": ("production", "2099-01")}, 535),
        ({"b590": ("new_feature", ""), "b580": ("production", "2099-01")}, 580),
        ({"b535": ("lts", "2020-01"), "b590": ("new_feature", "")}, 590),
        ({"b470": ("ended", "2024-09"), "b390": ("ended", "2022-12")}, 470),
        ({}, None),
    ],
)
def test_alive_comes_before_long_term_before_new(monkeypatch, rows, chosen):
    table = known(monkeypatch, **rows)
    assert module.best(sorted(table), "2026-11-21") == chosen
    assert module.best(sorted(table, reverse=True), "2026-11-21") == chosen

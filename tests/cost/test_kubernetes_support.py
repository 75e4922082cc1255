"""EKS versions and the day on which their standard support ends."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet.cost.pricers.aws_support import ends, extended


@pytest.mark.parametrize(
    ("version", "on", "named"),
    [
        ("1.33", date(2026, 7, 29), False),
        ("1.33", date(2026, 7, 30), True),
        ("1.36", date(2027, 3, 28), False),
        ("1.9", date(2026, 1, 1), True),
        ("1.31.4", date(2026, 1, 1), True),
        ("latest", date(2026, 1, 1), False),
    ],
)
def test_a_version_is_named_from_the_day_after_its_support(version, on, named):
    assert bool(extended({"version": version}, on)) is named


def test_versions_end_in_their_order():
    days = [ends()[version] for version in sorted(ends())]
    assert days == sorted(days)
    assert len(days) == 7

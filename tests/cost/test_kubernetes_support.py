"""Test EKS versions and the end of their standard support."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet.cost.pricing.pricers.aws.kubernetes_support import (
    find_extended_support_note,
    load_eks_support_end_dates,
)


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
def test_version_is_reported_from_the_day_after_its_support_ends(version, on, named):
    assert bool(find_extended_support_note(version, on)) is named


def test_support_of_versions_ends_in_order():
    days = [load_eks_support_end_dates()[version] for version in sorted(load_eks_support_end_dates())]
    assert days == sorted(days)
    assert len(days) == 7

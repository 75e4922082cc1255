"""Test hours of schedules and recurring actions."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.cost.inputs.usage import (
    parse_schedule_hours_per_month,
    parse_weekly_cron,
    weekly_average_group_size,
    weekly_average_group_size_with_minimums,
)

WEEK = Decimal(168)


@pytest.mark.parametrize(
    ("text", "hours_a_week"),
    [
        ("weekdays 8-18", 50),
        ("weekends 0-24", 48),
        ("daily 22-6", 56),
        ("mon,wed 9-17", 16),
        ("mon-wed 9-17", 24),
        ("sat-mon 0-12", 36),
        ("always", 168),
        ("weekdays 8-18; sat 8-12", 54),
        ("weekdays 8-18; mon 8-12", 50),  # the same hours twice are the same hours
    ],
)
def test_hours_of_a_month_are_computed(text, hours_a_week):
    assert parse_schedule_hours_per_month(text) == (hours_a_week * Decimal(730) / WEEK).quantize(
        Decimal("0.01")
    )


@pytest.mark.parametrize(
    "text", ["", "weekdays", "weekdays 8", "someday 8-18", "mon 8-25", "mon 8-8", "mon 18", "8-18"]
)
def test_invalid_schedule_is_refused(text):
    with pytest.raises(ValueError, match="days and hours"):
        parse_schedule_hours_per_month(text)


@pytest.mark.parametrize(
    ("text", "times_a_week"),
    [
        ("0 8 * * 1-5", 5),
        ("0 8 * * MON-FRI", 5),
        ("*/30 * * * *", 336),
        ("0 8,18 * * 0", 2),
        ("0 8 ? * 7", 1),
        ("5/20 0 * * *", 21),
    ],
)
def test_cron_occurrences_are_counted_over_a_week(text, times_a_week):
    assert len(parse_weekly_cron(text).minutes) == times_a_week


@pytest.mark.parametrize(
    "text",
    ["", "0 8 * *", "0 8 1 * *", "0 8 * 6 *", "60 8 * * *", "0 8 * * FOO", "0 8 * * 1-", "*/0 * * * *"],
)
def test_cron_expression_that_is_not_weekly_is_refused(text):
    with pytest.raises(ValueError):
        parse_weekly_cron(text)


def test_weekly_average_of_two_daily_sizes_is_computed():
    assert (
        weekly_average_group_size(
            [(parse_weekly_cron("0 6 * * *"), Decimal(4)), (parse_weekly_cron("0 18 * * *"), Decimal(2))]
        )
        == 3
    )


def test_schedule_without_actions_has_no_average():
    assert weekly_average_group_size([]) is None


def test_window_raises_the_average_and_never_lowers_it():
    window = (parse_weekly_cron("0 0 * * *"), 360, Decimal(4))
    assert weekly_average_group_size_with_minimums([window], Decimal(0)) == 1
    assert weekly_average_group_size_with_minimums([window], Decimal(8)) == 8

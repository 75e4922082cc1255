"""Scheduled actions of an Auto Scaling group: its average size, and how small and large they make it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.usage import WeeklyCronSchedule, parse_weekly_cron, weekly_average_group_size
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.reader import Reader

SCHEDULE = "aws:autoscaling/schedule:Schedule"
SIZES = ("minSize", "desiredCapacity", "maxSize")


def apply_scheduled_actions(group: Reader, size: Range | None) -> tuple[Range | None, str]:
    """Return the group's size under its scheduled actions, and a note if they change what is expected."""
    actions = [group.reading(each) for each in group.find_referrers("autoscalingGroupName", SCHEDULE)]
    if size is None or not actions:
        return size, ""
    sizes = [each for action in actions for key in SIZES if (each := _find_size(action, key)) is not None]
    low, high = min((size.low, *sizes)), max((size.high, *sizes))
    timed_sizes = [(_find_recurrence(action), _find_group_size(action)) for action in actions]
    known = [(when, each) for when, each in timed_sizes if when and each is not None]
    average_size = weekly_average_group_size(known)
    if average_size is None or len(known) < len(actions):
        return Range.spanning(low, size.expected, high), "scheduled actions change its size"
    return Range.spanning(low, average_size, high), f"on average, under {len(known)} scheduled actions"


def _find_group_size(action: Reader) -> Decimal | None:
    """Return the desired size, else the minimum, which a group grows to."""
    desired = _find_size(action, "desiredCapacity")
    return _find_size(action, "minSize") if desired is None else desired


def _find_size(action: Reader, key: str) -> Decimal | None:
    """Return a size that an action sets; -1, which is not a number of machines, leaves the group's."""
    size = action.find_number(key)
    return size if isinstance(size, Decimal) else None


def _find_recurrence(action: Reader) -> WeeklyCronSchedule | None:
    """Return when an action runs; None if that is not weekly: then its size is a range."""
    recurrence = action.find_text("recurrence")
    try:
        return parse_weekly_cron(recurrence) if isinstance(recurrence, str) else None
    except ValueError:
        return None

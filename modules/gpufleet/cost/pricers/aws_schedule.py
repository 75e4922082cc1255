"""Scheduled actions of an Auto Scaling group: its size on average, and how small and large they make it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import Range
from gpufleet.cost.usage import Cron, average, load_cron
from gpufleet.cost.values import read_number, read_text
from gpufleet.engine import Resource

SCHEDULE = "aws:autoscaling/schedule:Schedule"
SIZES = ("minSize", "desiredCapacity", "maxSize")


def scheduled(resource: Resource, graph: Graph, size: Range | None) -> tuple[Range | None, str]:
    """Return the group's size under its scheduled actions, and a note where they change what is expected."""
    actions = graph.find_referrers(resource, ("autoscalingGroupName",), SCHEDULE)
    if size is None or not actions:
        return size, ""
    # A size of -1 means that the action leaves it as it is; number() returns no Decimal for it.
    told = [found for action in actions for key in SIZES if isinstance(found := _size(action, key), Decimal)]
    low, high = min((size.low, *told)), max((size.high, *told))
    timed = [
        (cron, found)
        for action in actions
        if (cron := _cron(action)) and (found := _desired(action)) is not None
    ]
    usual = average(timed)
    if usual is None or len(timed) < len(actions):
        return Range.spanning(low, size.expected, high), "scheduled actions change its size"
    return Range.spanning(low, usual, high), f"on average, under {len(timed)} scheduled actions"


def _size(action: Resource, key: str) -> Decimal | None:
    found = read_number(action.inputs, key)
    return found if isinstance(found, Decimal) else None


def _desired(action: Resource) -> Decimal | None:
    """Return the size an action sets: its desired one, else its least, which a group grows to."""
    wanted = _size(action, "desiredCapacity")
    return wanted if wanted is not None else _size(action, "minSize")


def _cron(action: Resource) -> Cron | None:
    said = read_text(action.inputs, "recurrence")
    try:
        return load_cron(said) if isinstance(said, str) else None
    except ValueError:
        return None  # then its size is a range

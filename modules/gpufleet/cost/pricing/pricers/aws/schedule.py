"""Scheduled actions of an Auto Scaling group: its average size, and how small and large they make it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.usage import WeeklyCronSchedule, parse_weekly_cron, weekly_average_group_size
from gpufleet.cost.inputs.values import number_if_known, read_input_number, read_input_text
from gpufleet.cost.money import Range
from gpufleet.engine import StateResource

SCHEDULE = "aws:autoscaling/schedule:Schedule"


@dataclass(frozen=True)
class ScheduledScalingAction:
    """The sizes that an action sets, None where it leaves them, and when it runs, None if that is not weekly."""

    min_size: Decimal | None
    desired_capacity: Decimal | None
    max_size: Decimal | None
    recurrence: WeeklyCronSchedule | None

    @property
    def sizes_to_set(self) -> list[Decimal]:
        """Return the sizes that the action sets."""
        return [size for size in (self.min_size, self.desired_capacity, self.max_size) if size is not None]

    @property
    def desired_or_min_group_size(self) -> Decimal | None:
        """Return the desired size, else the minimum, which a group grows to."""
        return self.min_size if self.desired_capacity is None else self.desired_capacity


def parse_scheduled_scaling_action(action: StateResource) -> ScheduledScalingAction:
    """Parse a scheduled action. A size of -1 leaves the group's; read_input_number does not return it."""
    return ScheduledScalingAction(
        min_size=number_if_known(read_input_number(action.inputs, "minSize")),
        desired_capacity=number_if_known(read_input_number(action.inputs, "desiredCapacity")),
        max_size=number_if_known(read_input_number(action.inputs, "maxSize")),
        recurrence=_parse_recurrence(action),
    )


def apply_scheduled_scaling_actions(
    resource: StateResource, graph: ResourceGraph, size: Range | None
) -> tuple[Range | None, str]:
    """Return the group's size under its scheduled actions, and a note if they change what is expected."""
    resources = graph.find_referring_resources(resource, ("autoscalingGroupName",), SCHEDULE)
    if size is None or not resources:
        return size, ""
    actions = [parse_scheduled_scaling_action(action) for action in resources]
    sizes = [each for action in actions for each in action.sizes_to_set]
    low, high = min((size.low, *sizes)), max((size.high, *sizes))
    timed_sizes = [
        (action.recurrence, action.desired_or_min_group_size)
        for action in actions
        if action.recurrence and action.desired_or_min_group_size is not None
    ]
    average_size = weekly_average_group_size(timed_sizes)
    if average_size is None or len(timed_sizes) < len(actions):
        return Range.spanning(low, size.expected, high), "scheduled actions change its size"
    return Range.spanning(low, average_size, high), f"on average, under {len(timed_sizes)} scheduled actions"


def _parse_recurrence(action: StateResource) -> WeeklyCronSchedule | None:
    recurrence = read_input_text(action.inputs, "recurrence")
    try:
        return parse_weekly_cron(recurrence) if isinstance(recurrence, str) else None
    except ValueError:
        return None  # then its size is a range

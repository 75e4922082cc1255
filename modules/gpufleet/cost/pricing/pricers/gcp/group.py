"""Managed instance groups: machines of their template, between the autoscaler's bounds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.usage import (
    WeeklyCronSchedule,
    parse_weekly_cron,
    weekly_average_group_size_with_minimums,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.gcp.disk import list_template_disks
from gpufleet.cost.pricing.pricers.gcp.instance import TEMPLATES, find_reservation_claim
from gpufleet.cost.pricing.pricers.gcp.location import find_region, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import (
    find_machine_type,
    find_spot,
    list_addresses,
    list_image_licence,
    list_machine,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.reader import Parts, Reader, Unpriced

AUTOSCALERS = ("gcp:compute/autoscaler:Autoscaler", "gcp:compute/regionAutoscaler:RegionAutoscaler")
SECONDS_PER_MINUTE = 60
RESIZE_REQUESTS = (
    "gcp:compute/resizeRequest:ResizeRequest",
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
)
TEMPLATE = "versions.0.instanceTemplate"
Window = tuple[WeeklyCronSchedule, int, Decimal]  # recurrence, minutes, least size
BAD_SCHEDULE = "a schedule of its autoscaler is not known, or not weekly: what it adds is not priced"


@pricer(
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
def price_instance_group(group: Reader) -> Parts:
    """Yield a group at its target size, between the bounds of its autoscaler if it has one."""
    template = group.find_resource(TEMPLATE, *TEMPLATES)
    if template is None:
        raise group.of("machine").refuse("its instance template is not in this stack")
    autoscaler = _find_autoscaler(group)
    size = group.graph.resolve_group_size(group.resource, _find_declared_size(group, autoscaler))
    if size is None and group.find_referrers("instanceGroupManager", *RESIZE_REQUESTS):
        return  # its requests are the size, and are components of their own
    merged = replace(group, inputs={**template.inputs, **group.inputs})  # the group chooses the zones
    machine = (
        merged.within(group.region or find_region(template, group.graph))
        .bought(template, spot=find_spot(merged))
        .times(lambda: group.known(size, "group size"))
    )
    claim = find_reservation_claim(machine, template)
    yield from with_reservation_claim(list_machine(machine), claim)
    yield from with_reservation_claim(list_template_disks(machine, find_machine_type(machine)), claim)
    yield from list_image_licence(machine)
    yield from list_addresses(machine)
    _refuse_other_parts(group, autoscaler)


def _refuse_other_parts(group: Reader, autoscaler: Reader | None) -> None:
    """List what a group has in addition to running machines of its first version, and hours that are not known."""
    with group.of("schedules") as schedules:
        if autoscaler and _find_windows(autoscaler) is None:
            raise schedules.refuse(BAD_SCHEDULE)
    with group.of("versions") as versions:
        number = versions.count("versions", "how many versions it has")
        if number > 1:
            raise versions.refuse(f"it has {number} versions, and all machines are priced as the first")
    for state in ("suspended", "stopped"):
        with group.of(state) as machines:
            if machines.find_number(f"target{state.capitalize()}Size") not in (None, 0):
                raise machines.refuse(f"disks and memory of its {state} machines are not priced")


def _find_autoscaler(group: Reader) -> Reader | None:
    """Return the reader of the policy of a group's autoscaler."""
    autoscalers = group.find_referrers("target", *AUTOSCALERS)
    return group.reading(autoscalers[0]).inside("autoscalingPolicy") if autoscalers else None


def _find_declared_size(group: Reader, autoscaler: Reader | None) -> Range | None:
    """Return the declared size; schedules raise the expected one by the hours in which they require more machines."""
    size = group.find_number("targetSize")
    if autoscaler is None:
        return group_size_range(size, size, size)
    bounds = (autoscaler.find_number("minReplicas"), size, autoscaler.find_number("maxReplicas"))
    declared, windows = group_size_range(*bounds), _find_windows(autoscaler)
    if declared is None or not windows:
        return declared
    expected = weekly_average_group_size_with_minimums(windows, declared.expected)
    return Range.spanning(declared.low, expected, declared.high)


def _find_windows(autoscaler: Reader) -> list[Window] | None:
    """Return the hours of the week in which a schedule requires machines; None if one is not known, or not weekly."""
    try:
        return [
            (
                parse_weekly_cron(schedule.text("schedule")),
                int(schedule.number("durationSec") / SECONDS_PER_MINUTE),
                schedule.number("minRequiredReplicas"),
            )
            for schedule in autoscaler.entries("scalingSchedules")
            if not schedule.flag("disabled")
        ]
    except (Unpriced, ValueError):
        return None

"""Managed instance groups: machines of their template, between the autoscaler's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.usage import Cron, parse_cron, weekly_average_size_with_minimums
from gpufleet.cost.inputs.values import Number, is_true, read_list, read_number, read_text, read_value
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.gcp.instance import TEMPLATES, parse_template, reservation_claim
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    address_components,
    machine_components,
    machine_licence_components,
    reservation_attributes,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.group_size import size_range
from gpufleet.engine import StateResource

AUTOSCALERS = ("gcp:compute/autoscaler:Autoscaler", "gcp:compute/regionAutoscaler:RegionAutoscaler")
SECONDS_PER_MINUTE = 60


@dataclass(frozen=True)
class GroupInputs:
    """The inputs of a managed instance group."""

    target_size: Number
    version_count: int
    suspended_size: Number
    stopped_size: Number


@dataclass(frozen=True)
class AutoscalerInputs:
    """The bounds of an autoscaler, and its schedules: None if one of them is not known or not weekly."""

    minimum: Number
    maximum: Number
    windows: tuple[tuple[Cron, int, Decimal], ...] | None  # recurrence, minutes, least size


def parse_group(inputs: Any) -> GroupInputs:
    """Parse a managed instance group."""
    return GroupInputs(
        target_size=read_number(inputs, "targetSize"),
        version_count=len(read_list(inputs, "versions")),
        suspended_size=read_number(inputs, "targetSuspendedSize"),
        stopped_size=read_number(inputs, "targetStoppedSize"),
    )


def parse_autoscaler(inputs: Any) -> AutoscalerInputs:
    """Parse an autoscaler."""
    policy = read_value(inputs, "autoscalingPolicy")
    return AutoscalerInputs(
        minimum=read_number(policy, "minReplicas"),
        maximum=read_number(policy, "maxReplicas"),
        windows=_parse_schedules(read_list(policy, "scalingSchedules")),
    )


def price_group(resource: StateResource, graph: Graph) -> Components:
    """Return a group at its target size, between the bounds of its autoscaler if it has one."""
    template = graph.find_target(resource, ("versions", 0, "instanceTemplate"), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    group = parse_group(resource.inputs)
    count = graph.resolve_size(resource, _declared_size(group, resource, graph))
    if count is None:
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    launched = parse_template(template.inputs, resource.inputs)
    machine = launched.machine
    region = find_region(resource, graph) or find_region(template, graph)
    terms = graph.terms_of(resource, template, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = PartContext("gcp", region, terms.pool, count, terms.billed_hours)
    components = [
        *machine_components(machine, region, terms, count),
        *attached_disk_components(launched.disks, machine.machine_type, context),
    ]
    if not is_spot:
        claim = reservation_claim(template, launched.affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    return [
        *components,
        *_unpriced_group_parts(group),
        *machine_licence_components(machine),
        *address_components(machine, context, is_spot=is_spot),
    ]


def _unpriced_group_parts(group: GroupInputs) -> Components:
    """Return what a group has in addition to running machines of its first version."""
    components: Components = []
    if group.version_count > 1:
        reason = f"it has {group.version_count} versions, and all machines are priced as the first"
        components.append(UnpricedComponent(reason, "versions"))
    for size, state in ((group.suspended_size, "suspended"), (group.stopped_size, "stopped")):
        if size is not None and size != 0:
            reason = f"disks and memory of its {state} machines are not priced"
            components.append(UnpricedComponent(reason, state))
    return components


def _declared_size(group: GroupInputs, resource: StateResource, graph: Graph) -> Range | None:
    size = group.target_size
    target = next(iter(graph.find_referrers(resource, ("target",), *AUTOSCALERS)), None)
    if target is None:
        return size_range(size, size, size)
    autoscaler = parse_autoscaler(target.inputs)
    return _apply_schedules(size_range(autoscaler.minimum, size, autoscaler.maximum), autoscaler)


def _parse_schedules(schedules: list[Any]) -> tuple[tuple[Cron, int, Decimal], ...] | None:
    active = [schedule for schedule in schedules if not is_true(schedule, "disabled")]
    windows: list[tuple[Cron, int, Decimal]] = []
    for schedule in active:
        size = read_number(schedule, "minRequiredReplicas")
        seconds = read_number(schedule, "durationSec")
        if not isinstance(size, Decimal) or not isinstance(seconds, Decimal):
            return None
        try:
            recurrence = parse_cron(str(read_text(schedule, "schedule")))
        except ValueError:
            return None
        windows.append((recurrence, int(seconds / SECONDS_PER_MINUTE), size))
    return tuple(windows)


def _apply_schedules(size: Range | None, autoscaler: AutoscalerInputs) -> Range | None:
    """Raise the expected size by the hours of the week in which a schedule requires more machines."""
    if size is None or not autoscaler.windows:
        return size
    expected = weekly_average_size_with_minimums(list(autoscaler.windows), size.expected)
    return Range.spanning(size.low, expected, max(size.high, size.expected))

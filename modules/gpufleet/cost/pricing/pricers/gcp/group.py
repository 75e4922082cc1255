"""Managed instance groups: machines of their template, between the autoscaler's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.usage import (
    WeeklyCronSchedule,
    parse_weekly_cron,
    weekly_average_group_size_with_minimums,
)
from gpufleet.cost.inputs.values import (
    Number,
    is_input_true,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.gcp.instance import (
    TEMPLATES,
    make_reservation_claim,
    parse_instance_template_inputs,
)
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    external_address_components,
    image_licence_components,
    machine_components,
    reservation_attributes,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.engine import StateResource

AUTOSCALERS = ("gcp:compute/autoscaler:Autoscaler", "gcp:compute/regionAutoscaler:RegionAutoscaler")
SECONDS_PER_MINUTE = 60
RESIZE_REQUESTS = (
    "gcp:compute/resizeRequest:ResizeRequest",
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
)


@dataclass(frozen=True)
class InstanceGroupInputs:
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
    windows: tuple[tuple[WeeklyCronSchedule, int, Decimal], ...] | None  # recurrence, minutes, least size


def parse_instance_group_inputs(inputs: Any) -> InstanceGroupInputs:
    """Parse a managed instance group."""
    return InstanceGroupInputs(
        target_size=read_input_number(inputs, "targetSize"),
        version_count=len(read_input_list(inputs, "versions")),
        suspended_size=read_input_number(inputs, "targetSuspendedSize"),
        stopped_size=read_input_number(inputs, "targetStoppedSize"),
    )


def parse_autoscaler_inputs(inputs: Any) -> AutoscalerInputs:
    """Parse an autoscaler."""
    policy = read_input(inputs, "autoscalingPolicy")
    return AutoscalerInputs(
        minimum=read_input_number(policy, "minReplicas"),
        maximum=read_input_number(policy, "maxReplicas"),
        windows=_parse_schedules(read_input_list(policy, "scalingSchedules")),
    )


def price_instance_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a group at its target size, between the bounds of its autoscaler if it has one."""
    template = graph.find_referenced_resource(resource, ("versions", 0, "instanceTemplate"), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    group = parse_instance_group_inputs(resource.inputs)
    count = graph.resolve_group_size(resource, _declared_size(group, resource, graph))
    if count is None:
        if graph.find_referring_resources(resource, ("instanceGroupManager",), *RESIZE_REQUESTS):
            return []  # its requests are the size, and are components of their own
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    launched = parse_instance_template_inputs(template.inputs, resource.inputs)
    machine = launched.machine
    region = find_region(resource, graph) or find_region(template, graph)
    terms = graph.purchase_terms_of(resource, template, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = MachinePartContext("gcp", region, terms.pool, count, terms.billed_hours_per_month)
    components = [
        *machine_components(machine, region, terms, count),
        *attached_disk_components(launched.disks, machine.machine_type, context),
    ]
    if not is_spot:
        claim = make_reservation_claim(template, launched.affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    return [
        *components,
        *_unpriced_group_parts(group, _find_autoscaler(resource, graph)),
        *image_licence_components(machine),
        *external_address_components(machine, context, is_spot=is_spot),
    ]


def _unpriced_group_parts(group: InstanceGroupInputs, autoscaler: AutoscalerInputs | None) -> Components:
    """Return what a group has in addition to running machines of its first version, and hours that are not known."""
    components: Components = []
    if autoscaler and autoscaler.windows is None:
        reason = "a schedule of its autoscaler is not known, or not weekly: what it adds is not priced"
        components.append(UnpricedComponent(reason, "schedules"))
    if group.version_count > 1:
        reason = f"it has {group.version_count} versions, and all machines are priced as the first"
        components.append(UnpricedComponent(reason, "versions"))
    for size, state in ((group.suspended_size, "suspended"), (group.stopped_size, "stopped")):
        if size is not None and size != 0:
            reason = f"disks and memory of its {state} machines are not priced"
            components.append(UnpricedComponent(reason, state))
    return components


def _declared_size(group: InstanceGroupInputs, resource: StateResource, graph: ResourceGraph) -> Range | None:
    size = group.target_size
    autoscaler = _find_autoscaler(resource, graph)
    if autoscaler is None:
        return group_size_range(size, size, size)
    return _apply_schedules(group_size_range(autoscaler.minimum, size, autoscaler.maximum), autoscaler)


def _find_autoscaler(resource: StateResource, graph: ResourceGraph) -> AutoscalerInputs | None:
    target = next(iter(graph.find_referring_resources(resource, ("target",), *AUTOSCALERS)), None)
    return parse_autoscaler_inputs(target.inputs) if target else None


def _parse_schedules(schedules: list[Any]) -> tuple[tuple[WeeklyCronSchedule, int, Decimal], ...] | None:
    active = [schedule for schedule in schedules if not is_input_true(schedule, "disabled")]
    windows: list[tuple[WeeklyCronSchedule, int, Decimal]] = []
    for schedule in active:
        size = read_input_number(schedule, "minRequiredReplicas")
        seconds = read_input_number(schedule, "durationSec")
        if not isinstance(size, Decimal) or not isinstance(seconds, Decimal):
            return None
        try:
            recurrence = parse_weekly_cron(str(read_input_text(schedule, "schedule")))
        except ValueError:
            return None
        windows.append((recurrence, int(seconds / SECONDS_PER_MINUTE), size))
    return tuple(windows)


def _apply_schedules(size: Range | None, autoscaler: AutoscalerInputs) -> Range | None:
    """Raise the expected size by the hours of the week in which a schedule requires more machines."""
    if size is None or not autoscaler.windows:
        return size
    expected = weekly_average_group_size_with_minimums(list(autoscaler.windows), size.expected)
    return Range.spanning(size.low, expected, max(size.high, size.expected))

"""Managed instance groups: machines as their template says, between the autoscaler's bounds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.usage import parse_cron, weekly_average_with_windows
from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import gcp_parts
from gpufleet.cost.pricing.pricers.common import bounds
from gpufleet.cost.pricing.pricers.gcp_instance import TEMPLATES, claim, claimed, is_spot, machine
from gpufleet.engine import Resource

AUTOSCALERS = ("gcp:compute/autoscaler:Autoscaler", "gcp:compute/regionAutoscaler:RegionAutoscaler")


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill a group at its target size, between the bounds of its autoscaler where it has one."""
    template = graph.find_target(resource, ("versions", 0, "instanceTemplate"), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    count = graph.resolve_size(resource, _count(resource, graph))
    if count is None:
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    where = gcp_parts.region(resource, graph) or gcp_parts.region(template, graph)
    terms = graph.terms_of(resource, template, spot=is_spot(template.inputs))
    found = machine(template.inputs, where, terms, count)
    around = PartContext("gcp", where, terms.pool, count, terms.billed_hours)
    found += gcp_parts.templated(template.inputs, around)
    if terms.purchase != "spot":
        found = claimed(found, claim(template, graph, resource))
    found += [*_besides(resource), *gcp_parts.licences(template.inputs)]
    return [*found, *gcp_parts.addresses(template.inputs, around, spot=terms.purchase == "spot")]


def _besides(resource: Resource) -> Components:
    """Name what a group runs or keeps beside machines of its first version."""
    found: Components = []
    if len(versions := read_list(resource.inputs, "versions")) > 1:
        found.append(
            UnpricedComponent(
                f"of its {len(versions)} versions all machines are priced as of the first", "versions"
            )
        )
    for key, what in (("targetSuspendedSize", "suspended"), ("targetStoppedSize", "stopped")):
        if (kept := read_number(resource.inputs, key)) is not None and kept != 0:
            found.append(UnpricedComponent(f"disks and memory of its {what} machines are not priced", what))
    return found


def _count(resource: Resource, graph: Graph) -> Range | None:
    wanted = read_number(resource.inputs, "targetSize")
    scaler = _autoscaler(resource, graph)
    if scaler is None:
        return bounds(wanted, wanted, wanted)
    policy = ("autoscalingPolicy",)
    low = read_number(scaler.inputs, *policy, "minReplicas")
    found = bounds(low, wanted, read_number(scaler.inputs, *policy, "maxReplicas"))
    return _scheduled(found, read_list(scaler.inputs, *policy, "scalingSchedules"))


def _scheduled(found: Range | None, schedules: list[Any]) -> Range | None:
    """Raise what is expected by the hours of the week in which a schedule asks for more machines."""
    active = [each for each in schedules if read_value(each, "disabled") is not True]
    if found is None or not active:
        return found
    asked = [read_number(each, "minRequiredReplicas") for each in active]
    lasting = [read_number(each, "durationSec") for each in active]
    known = [
        (n, s)
        for n, s in zip(asked, lasting, strict=True)
        if isinstance(n, Decimal) and isinstance(s, Decimal)
    ]
    try:
        windows = [
            (parse_cron(str(read_text(each, "schedule"))), int(seconds / 60), size)
            for each, (size, seconds) in zip(active, known, strict=True)
        ]
    except ValueError:  # not weekly, or not known: its bounds hold all the same
        return found
    return Range.spanning(found.low, weekly_average_with_windows(windows, found.expected), max(found.high, found.expected))


def _autoscaler(resource: Resource, graph: Graph) -> Resource | None:
    return next(iter(graph.find_referrers(resource, ("target",), *AUTOSCALERS)), None)

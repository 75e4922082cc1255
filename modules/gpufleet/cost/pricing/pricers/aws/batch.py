"""AWS Batch compute environments, and EMR clusters with the service's fee on top of their machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpufleet.catalog import find_machine
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import find_region
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

EMR_ROLES = {"master": "masterInstanceGroup", "core": "coreInstanceGroup"}
FLEETS = {"master": "masterInstanceFleet", "core": "coreInstanceFleet"}
DEFAULT_VOLUME_TYPE = "gp2"


@dataclass(frozen=True)
class BatchEnvironmentInputs:
    """The inputs of a compute environment: its capacity in vCPUs."""

    is_unmanaged: bool
    kind: Text
    min_vcpus: Number
    desired_vcpus: Number
    max_vcpus: Number
    instance_types: tuple[Text, ...]


@dataclass(frozen=True)
class EmrInstanceGroupInputs:
    """The machines of one role of an EMR cluster."""

    role: str
    instance_type: Text
    count: Number
    is_spot: bool
    volumes: tuple[tuple[Text, Number, Number], ...]  # type, size in GiB, volumes of an instance


def parse_batch_environment_inputs(inputs: Any) -> BatchEnvironmentInputs:
    """Parse a compute environment."""
    resources = read_input(inputs, "computeResources")
    names = read_input(resources, "instanceTypes")
    count = len(read_input_list(resources, "instanceTypes"))
    return BatchEnvironmentInputs(
        is_unmanaged=resources is None,
        kind=read_input_text(resources, "type"),
        min_vcpus=read_input_number(resources, "minVcpus"),
        desired_vcpus=read_input_number(resources, "desiredVcpus"),
        max_vcpus=read_input_number(resources, "maxVcpus"),
        instance_types=(names,)
        if isinstance(names, UnreadableValue)
        else tuple(read_input_text(resources, "instanceTypes", index) for index in range(count)),
    )


def parse_emr_instance_group(role: str, inputs: Any) -> EmrInstanceGroupInputs:
    """Parse a group of an EMR cluster, or a resource that adds one."""
    return EmrInstanceGroupInputs(
        role=role,
        instance_type=read_input_text(inputs, "instanceType"),
        count=read_input_number(inputs, "instanceCount"),
        is_spot=read_input(inputs, "bidPrice") is not None,
        volumes=tuple(
            (
                read_input_text(volume, "type") or DEFAULT_VOLUME_TYPE,
                read_input_number(volume, "size"),
                read_input_number(volume, "volumesPerInstance"),
            )
            for volume in read_input_list(inputs, "ebsConfigs")
        ),
    )


def price_batch_environment(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a compute environment between its least and greatest number of vCPUs."""
    environment = parse_batch_environment_inputs(resource.inputs)
    if environment.is_unmanaged:
        return []  # unmanaged: its machines are resources of their own
    kind = text_or_unpriced(environment.kind, "type")
    if isinstance(kind, UnpricedComponent):
        return [kind]
    if kind.startswith("FARGATE"):
        reason = (
            "Batch on Fargate bills the vCPUs and the memory of each job, which the program does not declare"
        )
        return [UnpricedComponent(reason, "jobs")]
    vcpus = group_size_range(environment.min_vcpus, environment.desired_vcpus, environment.max_vcpus)
    if vcpus is None:
        return [UnpricedComponent("its vCPUs are not known until deployment", "machine")]
    types = [name for name in environment.instance_types if isinstance(name, str)]
    counts = [_machine_count(name, vcpus) for name in types]
    known = [(name, count) for name, count in zip(types, counts, strict=True) if count is not None]
    if len(known) != len(environment.instance_types) or not known:
        families = ", ".join(types)[:60] or "its machine types"
        return [
            UnpricedComponent(f"Batch chooses the machines of {families} as jobs ask for them", "machine")
        ]
    terms = graph.purchase_terms_of(resource, spot=kind == "SPOT")
    first_count = known[0][1]
    high = max(count.high for _, count in known)
    low = min(count.low for _, count in known)
    size = graph.resolve_group_size(resource, Range.spanning(low, first_count.expected, high))
    names = tuple(dict.fromkeys(name for name, _ in known))
    return [
        CostComponent(
            "machine",
            names[:1],
            "aws",
            find_region(resource, graph),
            size or first_count,
            terms=terms,
            hours_per_month=terms.billed_hours_per_month,
            note="" if len(names) == 1 else f"or {', '.join(names[1:])}"[:80],
        )
    ]


def _machine_count(name: str, vcpus: Range) -> Range | None:
    """Return how many machines of a type have these vCPUs; None for a family, or an unknown type."""
    machine = find_machine(name, "aws")
    if machine is None:
        return Range.from_exact_value(0) if "." in name and vcpus.high == 0 else None
    each = Decimal(machine.vcpus)
    counts = [
        (value / each).to_integral_value(ROUND_CEILING) for value in (vcpus.low, vcpus.expected, vcpus.high)
    ]
    return Range(*counts)


def price_emr_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a cluster, their volumes, and EMR's fee for each."""
    components: Components = []
    for role, key in EMR_ROLES.items():
        group = read_input(resource.inputs, key)
        if isinstance(group, UnreadableValue):
            components.append(UnpricedComponent(f"its {role} group is not known until deployment", role))
        elif group is not None:
            components += _emr_components(resource, graph, parse_emr_instance_group(role, group))
    components += [
        UnpricedComponent("EMR chooses the machines of an instance fleet by its target capacity", role)
        for role, key in FLEETS.items()
        if read_input(resource.inputs, key) is not None
    ]
    return components


def price_emr_instance_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a task group."""
    return list(_emr_components(resource, graph, parse_emr_instance_group("task", resource.inputs)))


def _emr_components(
    resource: StateResource, graph: ResourceGraph, group: EmrInstanceGroupInputs
) -> Iterator[CostComponent | UnpricedComponent]:
    instance_type = text_or_unpriced(group.instance_type, f"{group.role} instance type", group.role)
    count = number_or_unpriced(group.count, f"{group.role} instance count", group.role, Decimal(1))
    if isinstance(instance_type, UnpricedComponent):
        yield instance_type
        return
    if isinstance(count, UnpricedComponent):
        yield count
        return
    terms = graph.purchase_terms_of(resource, spot=group.is_spot)
    machines = Range.from_exact_value(count)
    yield CostComponent(
        group.role,
        (instance_type,),
        "aws",
        find_region(resource, graph),
        machines,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
    )
    fee = make_instance_component(resource, graph, f"emr:{instance_type}", machines, f"{group.role}:emr")
    yield replace(fee, hours_per_month=terms.billed_hours_per_month)
    yield from _emr_volumes(group, count, make_service_context(resource, graph))


def _emr_volumes(
    group: EmrInstanceGroupInputs, count: Decimal, context: MachinePartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    for index, (volume_type, size, number) in enumerate(group.volumes, start=1):
        name = f"{group.role}:disk:{index}"
        size_gib = number_or_unpriced(size, "volume size", name)
        copies = number_or_unpriced(number, "the number of volumes", name, Decimal(1))
        if isinstance(size_gib, UnpricedComponent):
            yield size_gib
        elif isinstance(copies, UnpricedComponent):
            yield copies
        else:
            item = f"ebs:{text_if_known(volume_type) or DEFAULT_VOLUME_TYPE}"
            yield make_counted_component(context, name, item, count * copies, size_gib)

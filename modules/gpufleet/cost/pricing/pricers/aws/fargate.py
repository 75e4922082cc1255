"""ECS services on Fargate: vCPUs, memory and disk of the tasks. Those on EC2 bill through their instances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.boundary import decode_json
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_input_true,
    list_if_known,
    number_if_known,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import make_counted_component, make_service_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.engine import StateResource, UnreadableValue
from gpufleet.errors import InputError

TASK_DEFINITION = "aws:ecs/taskDefinition:TaskDefinition"
CLUSTER_PROVIDERS = "aws:ecs/clusterCapacityProviders:ClusterCapacityProviders"
SCALING_TARGET = "aws:appautoscaling/target:Target"
FARGATE, FARGATE_SPOT = "FARGATE", "FARGATE_SPOT"
INCLUDED_DISK_GIB = Decimal(20)
MAX_AMOUNT_LENGTH = 20
CPU_UNITS, MIB_PER_GIB = Decimal(1024), Decimal(1024)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(vcpu|gb)?", re.IGNORECASE)


@dataclass(frozen=True)
class EcsServiceInputs:
    """The inputs of a service. ``providers`` are capacity providers with base and weight."""

    launch_type: Text
    desired_count: Number
    providers: tuple[tuple[str, Decimal, Decimal], ...]
    hidden_providers: UnreadableValue | None
    runs_on_each_instance: bool
    has_public_address: bool


@dataclass(frozen=True)
class TaskDefinitionInputs:
    """The size of a task."""

    vcpus: Number
    memory_gib: Number
    disk_gib: Number
    platform: str
    is_fargate_only: bool


def parse_ecs_service_inputs(inputs: Any) -> EcsServiceInputs:
    """Parse a service."""
    return EcsServiceInputs(
        launch_type=read_input_text(inputs, "launchType"),
        desired_count=read_input_number(inputs, "desiredCount"),
        providers=parse_capacity_providers(inputs, "capacityProviderStrategies"),
        hidden_providers=_find_hidden_provider(inputs, "capacityProviderStrategies"),
        runs_on_each_instance=read_input_text(inputs, "schedulingStrategy") == "DAEMON",
        has_public_address=is_input_true(inputs, "networkConfiguration", "assignPublicIp"),
    )


def _find_hidden_provider(inputs: Any, key: str) -> UnreadableValue | None:
    """Return why a strategy cannot be read: all of it, or the name of one of its providers."""
    names = [read_input_text(entry, "capacityProvider") for entry in list_if_known(read_input(inputs, key))]
    markers = (UnreadableValue.UNKNOWN if name is None else name for name in names)
    hidden = next((marker for marker in markers if isinstance(marker, UnreadableValue)), None)
    return read_input_marker(inputs, key) or hidden


def parse_capacity_providers(inputs: Any, key: str) -> tuple[tuple[str, Decimal, Decimal], ...]:
    """Parse a strategy: each provider with its base and its weight."""
    return tuple(
        (
            str(read_input_text(entry, "capacityProvider")),
            number_if_known(read_input_number(entry, "base")) or ZERO,
            number_if_known(read_input_number(entry, "weight")) or ZERO,
        )
        for entry in read_input_list(inputs, key)
    )


def parse_task_definition_inputs(inputs: Any) -> TaskDefinitionInputs:
    """Parse a task definition: its own size, else the sum of its containers."""
    system = text_if_known(read_input_text(inputs, "runtimePlatform", "operatingSystemFamily")) or "LINUX"
    is_arm = read_input_text(inputs, "runtimePlatform", "cpuArchitecture") == "ARM64"
    platform = "windows" if system.startswith("WINDOWS") else "linux_arm" if is_arm else "linux_x86"
    return TaskDefinitionInputs(
        vcpus=_parse_task_size(read_input(inputs, "cpu"), CPU_UNITS)
        or _sum_containers(inputs, "cpu", CPU_UNITS),
        memory_gib=_parse_task_size(read_input(inputs, "memory"), MIB_PER_GIB)
        or _sum_containers(inputs, "memory", MIB_PER_GIB),
        disk_gib=read_input_number(inputs, "ephemeralStorage", "sizeInGib"),
        platform=platform,
        is_fargate_only=read_input_list(inputs, "requiresCompatibilities") == [FARGATE],
    )


def _parse_task_size(value: Any, unit: Decimal) -> Number:
    """Parse a size in units of 1/1024, or with its unit, as ``"0.5 vCPU"`` and ``"1 GB"``."""
    if value is None or isinstance(value, UnreadableValue):
        return value
    text = str(value).strip()
    match = _AMOUNT.fullmatch(text) if len(text) <= MAX_AMOUNT_LENGTH else None
    if not match:
        return UnreadableValue.UNKNOWN
    return Decimal(match[1]) if match[2] else Decimal(match[1]) / unit


def _sum_containers(inputs: Any, key: str, unit: Decimal) -> Number:
    definitions = read_input(inputs, "containerDefinitions")
    if isinstance(definitions, UnreadableValue):
        return definitions
    try:
        containers = decode_json(str(definitions), "containerDefinitions")
    except InputError:
        return None
    sizes = [read_input_number(each, key) for each in read_input_list({"all": containers}, "all")]
    known = [size for size in sizes if isinstance(size, Decimal)]
    return sum(known, ZERO) / unit if known and len(known) == len(sizes) else None


def price_ecs_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the tasks of a service on Fargate; nothing if they run on instances, which bill themselves."""
    service = parse_ecs_service_inputs(resource.inputs)
    definition = graph.find_referenced_resource(resource, ("taskDefinition",), TASK_DEFINITION)
    task = parse_task_definition_inputs(definition.inputs if definition else {})
    providers = _find_providers(resource, graph, service, task)
    if isinstance(providers, UnpricedComponent):
        return [providers]
    if not any(name in (FARGATE, FARGATE_SPOT) for name, _, _ in providers):
        return []
    if definition is None:
        return [UnpricedComponent("its task definition is not in this stack", "task")]
    count = _find_task_count(resource, graph, service)
    if count is None:
        return [UnpricedComponent("the number of tasks is not known until deployment", "task")]
    return list(_task_components(resource, graph, service, task, split_tasks(count, providers)))


def _find_providers(
    resource: StateResource, graph: ResourceGraph, service: EcsServiceInputs, task: TaskDefinitionInputs
) -> tuple[tuple[str, Decimal, Decimal], ...] | UnpricedComponent:
    """Return what the tasks run on: the service's choice, else its cluster's default, else instances."""
    for marker in (service.launch_type, service.hidden_providers):
        if isinstance(marker, UnreadableValue):
            return UnpricedComponent(f"what its tasks run on is {MARKER_REASONS[marker]}", "task")
    if service.providers:
        return service.providers
    if isinstance(service.launch_type, str):
        return ((service.launch_type, ZERO, Decimal(1)),)
    cluster = graph.find_referenced_resource(resource, ("cluster",), "aws:ecs/cluster:Cluster")
    if cluster is not None:
        for each in graph.find_referring_resources(cluster, ("clusterName",), CLUSTER_PROVIDERS):
            return parse_capacity_providers(each.inputs, "defaultCapacityProviderStrategies")
    return ((FARGATE, ZERO, Decimal(1)),) if task.is_fargate_only else ()


def _find_task_count(
    resource: StateResource, graph: ResourceGraph, service: EcsServiceInputs
) -> Range | None:
    """Return the declared tasks between the bounds of the service's autoscaling."""
    desired = service.desired_count
    declared = None if isinstance(desired, UnreadableValue) else Range.from_exact_value(desired or ZERO)
    for target in graph.find_referring_resources(resource, ("resourceId",), SCALING_TARGET):
        low = number_if_known(read_input_number(target.inputs, "minCapacity"))
        high = number_if_known(read_input_number(target.inputs, "maxCapacity"))
        if low is not None and high is not None and low <= high:
            expected = declared.expected if declared else high
            declared = Range(low, min(max(expected, low), high), high)
    return graph.resolve_group_size(resource, declared)


def split_tasks(count: Range, providers: tuple[tuple[str, Decimal, Decimal], ...]) -> dict[str, Range]:
    """Return how many tasks each provider runs: its base first, the rest by weight."""
    total_weight = sum((weight for _, _, weight in providers), ZERO)
    shares: dict[str, list[Decimal]] = {name: [] for name, _, _ in providers}
    for tasks in (count.low, count.expected, count.high):
        rest = tasks
        bases = {}
        for name, base, _ in providers:
            bases[name] = min(base, rest)
            rest -= bases[name]
        for name, _, weight in providers:
            by_weight = rest * weight / total_weight if total_weight else ZERO
            shares[name].append(bases[name] + by_weight)
    return {name: Range(*values) for name, values in shares.items()}


def _task_components(
    resource: StateResource,
    graph: ResourceGraph,
    service: EcsServiceInputs,
    task: TaskDefinitionInputs,
    counts: dict[str, Range],
) -> Iterator[Any]:
    terms = graph.purchase_terms_of(resource)
    hours = terms.hours
    context = make_service_context(resource, graph).with_billed_hours(hours)
    for provider, count in counts.items():
        if provider not in (FARGATE, FARGATE_SPOT) or count.high == ZERO:
            continue
        is_spot = provider == FARGATE_SPOT
        prefix = "spot_" if is_spot else ""
        for unit, amount in (("vcpu", task.vcpus), ("memory", task.memory_gib)):
            name = f"{prefix}{unit}"
            if not isinstance(amount, Decimal):
                reason = MARKER_REASONS[amount] if amount else "not set"
                yield UnpricedComponent(f"the {unit} of its tasks is {reason}", name)
                continue
            item = f"fargate:{task.platform}:{unit}"
            part = make_counted_component(context, name, item, count, amount)
            yield replace(part, terms=PurchaseTerms("spot", pool=terms.pool)) if is_spot else part
        yield from _disk_components(task, context, count, prefix)
        if service.has_public_address:
            yield make_counted_component(context, f"{prefix}{ADDRESS}", ADDRESS, count)


def _disk_components(
    task: TaskDefinitionInputs, context: MachinePartContext, count: Range, prefix: str
) -> Iterator[Any]:
    disk_gib = number_if_known(task.disk_gib)
    if disk_gib and disk_gib > INCLUDED_DISK_GIB:
        item = "fargate:ephemeral_storage"
        yield make_counted_component(context, f"{prefix}disk", item, count, disk_gib - INCLUDED_DISK_GIB)

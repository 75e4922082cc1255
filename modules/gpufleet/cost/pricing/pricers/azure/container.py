"""Containers of Azure without a cluster: registries, container groups, and container apps with their environments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import (
    TieredService,
    UsageMeter,
    resolve_units,
    tiered_service_pricer,
    translated,
    units_component,
    with_inputs,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

SECONDS_PER_HOUR = Decimal(3600)
DEFAULT_VCPUS, DEFAULT_GIB = (
    Decimal("0.5"),
    Decimal(1),
)  # of a container app's container (its quickstart template)
# vCPUs and GiB of workload profiles (learn.microsoft.com, "Workload profiles in Azure Container Apps").
_PROFILE = re.compile(r"^([de])(4|8|16|32)$")
GIB_PER_VCPU = {"d": 4, "e": 8}
_GIB = re.compile(r"^(\d{1,4}(?:\.\d{1,4})?)Gi$")

JOB = TieredService(
    "job",
    "",
    meters=(
        UsageMeter("vcpus", "container_apps:vcpu_second", "monthly_vcpu_seconds"),
        UsageMeter("memory", "container_apps:gib_second", "monthly_gib_seconds"),
    ),
)
REPLICATION = TieredService("replication", "container_registry:premium")


@dataclass(frozen=True)
class RegistryInputs:
    """The tier of a registry, and in how many regions it is replicated."""

    tier: Text
    replication_count: int


@dataclass(frozen=True)
class ContainerGroupInputs:
    """The sums of the containers of a group, and what changes their prices."""

    vcpus: Number
    memory_gib: Number
    is_windows: bool
    is_spot: bool
    has_gpus: bool


@dataclass(frozen=True)
class ContainerAppInputs:
    """The sums of the containers of one replica, and the bounds of the replicas."""

    vcpus: Number
    memory_gib: Number
    minimum: Number
    maximum: Number
    profile: Text


@dataclass(frozen=True)
class WorkloadProfileInputs:
    """One workload profile of an environment."""

    kind: Text
    minimum: Number
    maximum: Number


def parse_registry_inputs(inputs: Any) -> RegistryInputs:
    """Parse a registry."""
    return RegistryInputs(
        read_input_text(inputs, "sku", "name"), len(read_input_list(inputs, "georeplications"))
    )


def parse_container_group_inputs(inputs: Any) -> ContainerGroupInputs:
    """Parse a container group."""
    requests = [read_input(each, "resources", "requests") for each in read_input_list(inputs, "containers")]
    return ContainerGroupInputs(
        vcpus=_sum([read_input_number(each, "cpu") for each in requests]),
        memory_gib=_sum([read_input_number(each, "memoryInGB") for each in requests]),
        is_windows=read_input_text(inputs, "osType") == "Windows",
        is_spot=read_input_text(inputs, "priority") == "Spot",
        has_gpus=any(read_input(each, "gpu") is not None for each in requests),
    )


def parse_container_app_inputs(inputs: Any) -> ContainerAppInputs:
    """Parse a container app."""
    containers = read_input_list(inputs, "template", "containers")
    return ContainerAppInputs(
        vcpus=_sum(
            [_number_or(read_input_number(each, "resources", "cpu"), DEFAULT_VCPUS) for each in containers]
        ),
        memory_gib=_sum([_parse_gib(read_input_text(each, "resources", "memory")) for each in containers]),
        minimum=read_input_number(inputs, "template", "scale", "minReplicas"),
        maximum=read_input_number(inputs, "template", "scale", "maxReplicas"),
        profile=read_input_text(inputs, "workloadProfileName"),
    )


def parse_workload_profiles(inputs: Any) -> tuple[WorkloadProfileInputs, ...]:
    """Parse the workload profiles of an environment."""
    return tuple(
        WorkloadProfileInputs(
            read_input_text(each, "workloadProfileType"),
            read_input_number(each, "minimumCount"),
            read_input_number(each, "maximumCount"),
        )
        for each in read_input_list(inputs, "workloadProfiles")
    )


def price_registry(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a registry by its tier, its replications in other regions, and storage by use."""
    registry = parse_registry_inputs(resource.inputs)
    tier = text_or_unpriced(registry.tier, "its tier", "registry")
    if isinstance(tier, UnpricedComponent):
        return [tier]
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    item = f"container_registry:{tier.lower()}"
    components: Components = [context.make_part_component("registry", item)]
    if registry.replication_count:
        size = Decimal(registry.replication_count)
        components.append(context.make_part_component("replications", item, size))
    stored = context.make_usage_component(
        "storage", "container_registry:gib", "storage_gb", usage, is_stored=True
    )
    return [*components, stored]


def price_container_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the vCPUs and memory of a group around the clock, or for the hours of the usage file."""
    group = parse_container_group_inputs(resource.inputs)
    terms = graph.purchase_terms_of(resource)
    context = standalone_part_context(resource, graph).with_billed_hours(terms.billed_hours_per_month)
    prefix = "container_group:spot_" if group.is_spot else "container_group:"
    components: Components = [
        units_component("vcpus", f"{prefix}vcpu", _exact(group.vcpus), context),
        units_component("memory", f"{prefix}gib", _exact(group.memory_gib), context),
    ]
    if group.is_windows:
        components.append(
            units_component("windows", "container_group:windows_vcpu", _exact(group.vcpus), context)
        )
    if group.has_gpus:
        components.append(UnpricedComponent("no price for GPUs of container groups", "gpus"))
    return components


def price_container_app(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the replicas that always run, up to the maximum; one that scales to zero bills by use."""
    app = parse_container_app_inputs(resource.inputs)
    if isinstance(app.profile, str) and app.profile.lower() != "consumption":
        return []  # it runs in a workload profile, which its environment bills
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    requests = context.make_usage_component("requests", "container_apps:request", "monthly_requests", usage)
    parts = (
        ("vcpus", "container_apps:vcpu_second", "monthly_vcpu_seconds", app.vcpus),
        ("memory", "container_apps:gib_second", "monthly_gib_seconds", app.memory_gib),
    )
    if not app.minimum or any(key in usage.amounts for _, _, key, _ in parts):
        return [
            *(context.make_usage_component(name, item, key, usage) for name, item, key, _ in parts),
            requests,
        ]
    replicas = resolve_units(app.minimum, app.maximum, Decimal(1))
    components: Components = []
    for name, item, _, size in parts:
        units: Range | UnreadableValue = UnreadableValue.UNKNOWN
        if isinstance(size, Decimal) and isinstance(replicas, Range):
            units = replicas * (size * SECONDS_PER_HOUR)
        components.append(units_component(name, item, units, context))
    return [*components, requests]


def price_managed_environment(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of an environment's dedicated workload profiles, between their bounds."""
    context = standalone_part_context(resource, graph)
    components: Components = []
    for profile in parse_workload_profiles(resource.inputs):
        kind = text_or_unpriced(profile.kind, "its type", "profile")
        if isinstance(kind, UnpricedComponent):
            components.append(kind)
            continue
        if kind.lower().startswith("consumption"):
            continue
        minimum = ZERO if profile.minimum is None else profile.minimum
        match = _PROFILE.match(kind.lower())
        if not match:
            components.append(UnpricedComponent(f"no price for workload profile {kind}", f"profile:{kind}"))
        elif isinstance(minimum, UnreadableValue) or isinstance(profile.maximum, UnreadableValue):
            components.append(
                UnpricedComponent("its counts are not known until deployment", f"profile:{kind}")
            )
        else:
            count = Range.spanning(minimum, minimum, profile.maximum or minimum)
            vcpus = Decimal(match[2])
            gib = vcpus * GIB_PER_VCPU[match[1]]
            for part, size in (("vcpu", vcpus), ("gib", gib)):
                name, item = f"profile:{kind}:{part}", f"container_apps:dedicated_{part}"
                components.append(units_component(name, item, count * size, context))
    if components:
        components.append(context.make_part_component("management", "container_apps:dedicated_management"))
    return components


def _sum(numbers: list[Number]) -> Number:
    if any(isinstance(number, UnreadableValue) for number in numbers):
        return UnreadableValue.UNKNOWN
    return sum((number for number in numbers if isinstance(number, Decimal)), ZERO)


def _exact(number: Number) -> Range | UnreadableValue:
    return Range.from_exact_value(number) if isinstance(number, Decimal) else UnreadableValue.UNKNOWN


def _number_or(number: Number, default: Decimal) -> Number:
    return default if number is None else number


def _parse_gib(text: Text) -> Number:
    """Return the GiB of a text such as 0.5Gi."""
    if not isinstance(text, str):
        return DEFAULT_GIB if text is None else text
    match = _GIB.match(text)
    return Decimal(match[1]) if match else UnreadableValue.UNKNOWN


def _native_group(inputs: Any) -> Any:
    """Return the inputs of azure-native for a classic group."""
    containers = [
        {
            "resources": {
                "requests": {
                    "cpu": read_input(each, "cpu"),
                    "memoryInGB": read_input(each, "memory"),
                    "gpu": read_input(each, "gpu"),
                }
            }
        }
        for each in read_input_list(inputs, "containers")
    ]
    return {**inputs, "containers": containers}


def _native_app(inputs: Any) -> Any:
    """Return the inputs of azure-native for a classic app, which has scale and resources one level higher."""
    template = read_input(inputs, "template")
    containers = [
        {"resources": {"cpu": read_input(each, "cpu"), "memory": read_input(each, "memory")}}
        for each in read_input_list(template, "containers")
    ]
    scale = {key: read_input(template, key) for key in ("minReplicas", "maxReplicas")}
    return {**inputs, "template": {"containers": containers, "scale": scale}}


PRICERS: dict[str, Pricer] = {
    "azure-native:app:ContainerApp": price_container_app,
    "azure-native:app:Job": tiered_service_pricer(JOB),
    "azure-native:app:ManagedEnvironment": price_managed_environment,
    "azure-native:containerinstance:ContainerGroup": price_container_group,
    "azure-native:containerregistry:Registry": price_registry,
    "azure-native:containerregistry:Replication": tiered_service_pricer(REPLICATION),
    "azure:containerapp/app:App": with_inputs(price_container_app, _native_app),
    "azure:containerapp/environment:Environment": price_managed_environment,
    "azure:containerapp/job:Job": tiered_service_pricer(JOB),
    "azure:containerservice/group:Group": with_inputs(price_container_group, _native_group),
    "azure:containerservice/registry:Registry": translated(price_registry, {"sku": "sku.name"}),
}

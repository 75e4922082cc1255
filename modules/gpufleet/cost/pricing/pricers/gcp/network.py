"""Cloud NAT and external addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    read_input_text,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.location import find_region_or_global, standalone_part_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, NAT
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import StateResource

GLOBAL = "global"
UNUSED_OR_FREE = Range(ZERO, Decimal(1), Decimal(1))  # a rule that is not in the program may use an address
FORWARDING_RULES = (
    "gcp:compute/forwardingRule:ForwardingRule",
    "gcp:compute/globalForwardingRule:GlobalForwardingRule",
)
MAX_BILLED_MACHINES = Decimal(32)  # a gateway of more costs no more (cloud.google.com/nat/pricing)


@dataclass(frozen=True)
class StaticAddressInputs:
    """The inputs of a reserved address."""

    is_internal: bool
    is_ipv6: bool


def parse_static_address_inputs(inputs: Any) -> StaticAddressInputs:
    """Parse a reserved address, regional or global."""
    return StaticAddressInputs(
        is_internal=read_input_text(inputs, "addressType") == "INTERNAL",
        is_ipv6=read_input_text(inputs, "ipVersion") == "IPV6",
    )


def price_static_address(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a reserved external address; internal ones and those of forwarding rules are free."""
    if parse_static_address_inputs(resource.inputs).is_internal or _has_forwarding_rule(resource, graph):
        return []
    return [standalone_part_context(resource, graph).make_part_component(ADDRESS, ADDRESS)]


def price_global_address(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a global external address that no forwarding rule of the program uses; others are free."""
    address = parse_static_address_inputs(resource.inputs)
    if address.is_internal or address.is_ipv6 or _has_forwarding_rule(resource, graph):
        return []
    context = MachinePartContext("gcp", GLOBAL, graph.purchase_terms_of(resource).pool, UNUSED_OR_FREE)
    unused = context.make_part_component(ADDRESS, f"{ADDRESS}:unused")
    return [replace(unused, note="free while a forwarding rule uses it")]


def price_cloud_nat(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a gateway by the machines that use it, of which the usage file has the number."""
    context = _network_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    machines = usage.amounts.get("assigned_vms")
    traffic: Components = [*traffic_components(resource, graph, context)]
    if machines is None:
        reason = (
            "Cloud NAT bills by the machines that use it and their traffic, which its inputs do not have; "
            "give assigned_vms and monthly_data_processed_gb in the usage file"
        )
        return [UnpricedComponent(reason, "gateway"), *traffic]
    return [context.make_part_component("gateway", NAT, min(machines, MAX_BILLED_MACHINES)), *traffic]


def _has_forwarding_rule(resource: StateResource, graph: ResourceGraph) -> bool:
    """Return whether a forwarding rule uses an address, which then costs nothing (cloud.google.com/vpc/pricing)."""
    return bool(graph.find_referring_resources(resource, ("ipAddress",), *FORWARDING_RULES))


def _network_context(resource: StateResource, graph: ResourceGraph) -> MachinePartContext:
    return MachinePartContext(
        "gcp", find_region_or_global(resource, graph), graph.purchase_terms_of(resource).pool
    )

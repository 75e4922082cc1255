"""NAT gateways, bastions, load balancers and public addresses of Azure."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import part_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, BASTION, LOAD_BALANCER, NAT
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import Resource

INCLUDED_SCALE_UNITS = 2  # in a bastion's price
INCLUDED_RULES = 5  # in a load balancer's hourly price
DEFAULT_BASTION = "Standard"


def price_address(resource: Resource, graph: Graph) -> Components:
    """Return a public address, billed around the clock; an IPv6 one is free."""
    if read_text(resource.inputs, "publicIPAddressVersion") == "IPv6":
        return []
    return [part_context(resource, graph).part_component(ADDRESS, ADDRESS)]


def price_nat_gateway(resource: Resource, graph: Graph) -> Components:
    """Return a NAT gateway; its addresses bill where they are declared."""
    context = part_context(resource, graph)
    return [context.part_component("gateway", NAT), *traffic_components(resource, graph, context)]


def price_bastion(resource: Resource, graph: Graph) -> Components:
    """Return a bastion by its SKU, by default Standard; the Developer SKU is free."""
    sku = read_text(resource.inputs, "sku", "name")
    if sku is not None and not isinstance(sku, str):
        return [UnpricedComponent("bastion SKU is not known until deployment", "bastion")]
    if sku == "Developer":
        return []
    item = BASTION if sku == "Basic" else f"{BASTION}:{(sku or DEFAULT_BASTION).lower()}"
    components: Components = [part_context(resource, graph).part_component("bastion", item)]
    units = read_number(resource.inputs, "scaleUnits")
    if isinstance(units, Decimal) and units > INCLUDED_SCALE_UNITS:
        reason = f"{units - INCLUDED_SCALE_UNITS} scale units beyond those that its price includes"
        components.append(UnpricedComponent(reason, "scale_units"))
    return components


def price_load_balancer(resource: Resource, graph: Graph) -> Components:
    """Return a load balancer by its SKU and rules; a basic one is free."""
    sku = read_text(resource.inputs, "sku", "name")
    if sku is None or sku == "Basic":
        return []
    if not isinstance(sku, str):
        return [UnpricedComponent("load balancer SKU is not known until deployment", "load_balancer")]
    context = part_context(resource, graph)
    components: Components = [context.part_component("load_balancer", f"{LOAD_BALANCER}:{sku.lower()}")]
    rules = sum(len(read_list(resource.inputs, key)) for key in ("loadBalancingRules", "outboundRules"))
    if rules > INCLUDED_RULES:
        reason = f"{rules - INCLUDED_RULES} rules beyond those that its price includes"
        components.append(UnpricedComponent(reason, "rules"))
    return [*components, *traffic_components(resource, graph, context)]

"""NAT gateways, bastions and load balancers of Azure."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import azure_parts, traffic
from gpufleet.cost.pricing.pricers.part_names import BASTION, LOAD_BALANCER, NAT
from gpufleet.engine import Resource

SCALE_UNITS = 2  # what a bastion's price includes
RULES = 5  # what a load balancer's hourly price includes


def nat(resource: Resource, graph: Graph) -> Components:
    """Bill a NAT gateway; its addresses are billed where they are declared."""
    around = _around(resource, graph)
    return [around.part_component("gateway", NAT), *traffic.traffic_components(resource, graph, around)]


def bastion(resource: Resource, graph: Graph) -> Components:
    """Bill a bastion by its SKU, Standard where none is asked for; the developers' one is free."""
    sku = read_text(resource.inputs, "sku", "name")
    if sku is not None and not isinstance(sku, str):
        return [UnpricedComponent("bastion SKU is not known until deployment", "bastion")]
    if sku == "Developer":
        return []
    around = _around(resource, graph)
    found: Components = [
        around.part_component(
            "bastion", BASTION if sku == "Basic" else f"{BASTION}:{(sku or 'Standard').lower()}"
        )
    ]
    units = read_number(resource.inputs, "scaleUnits")
    if isinstance(units, Decimal) and units > SCALE_UNITS:
        found.append(
            UnpricedComponent(
                f"{units - SCALE_UNITS} scale units beyond those that its price includes", "scale_units"
            )
        )
    return found


def load_balancer(resource: Resource, graph: Graph) -> Components:
    """Bill a load balancer by its SKU and rules; a basic one is free."""
    sku = read_text(resource.inputs, "sku", "name")
    if sku is None or sku == "Basic":
        return []
    if not isinstance(sku, str):
        return [UnpricedComponent("load balancer SKU is not known until deployment", "load_balancer")]
    around = _around(resource, graph)
    found: Components = [around.part_component("load_balancer", f"{LOAD_BALANCER}:{sku.lower()}")]
    rules = sum(len(read_list(resource.inputs, key)) for key in ("loadBalancingRules", "outboundRules"))
    if rules > RULES:
        found.append(
            UnpricedComponent(f"{rules - RULES} rules beyond those that its price includes", "rules")
        )
    return [*found, *traffic.traffic_components(resource, graph, around)]


def _around(resource: Resource, graph: Graph) -> PartContext:
    return PartContext("azure", azure_parts.region(resource, graph), graph.terms_of(resource).pool)

"""What pricers of AWS services share: a service's region and instances that it runs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import (
    CostComponent,
    MachinePartContext,
)
from gpufleet.cost.pricing.pricers.aws.location import find_region
from gpufleet.engine import StateResource

GLOBAL = "global"  # the region of the prices of services that have none


def make_service_context(
    resource: StateResource, graph: ResourceGraph, region: str | None = None
) -> MachinePartContext:
    """Return where a service's parts are priced: in its own region, or in ``region``."""
    pool = graph.purchase_terms_of(resource).pool
    return MachinePartContext("aws", find_region(resource, graph) if region is None else region, pool)


def make_instance_component(
    resource: StateResource, graph: ResourceGraph, item: str, count: Range = ONE, component: str = "instance"
) -> CostComponent:
    """Return instances that a service runs; tags and the usage file set their purchase and hours."""
    terms = graph.purchase_terms_of(resource)
    if terms.purchase not in TERMS:
        terms = replace(terms, purchase="on_demand")
    return CostComponent(
        component,
        (item,),
        "aws",
        find_region(resource, graph),
        count,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        is_part=True,
    )


def make_counted_component(
    context: MachinePartContext, component: str, item: str, count: Decimal | Range, size: Decimal = Decimal(1)
) -> CostComponent:
    """Return ``count`` parts, of ``size`` price units each."""
    counts = count if isinstance(count, Range) else Range.from_exact_value(count)
    return replace(context, count=counts).make_part_component(component, item, size)

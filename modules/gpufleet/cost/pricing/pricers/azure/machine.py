"""Azure virtual machines: the machine, its disks, and the reservation that may cover it."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    RESERVATION_PATH,
    licence_components,
    parse_machine,
    reservation_claim,
    with_max_price,
)
from gpufleet.cost.pricing.pricers.required_input import require_text
from gpufleet.engine import StateResource


def price_machine(resource: StateResource, graph: Graph) -> Components:
    """Return one virtual machine with its disks."""
    machine = parse_machine(resource.inputs)
    size = require_text(machine.size, "machine size")
    if isinstance(size, UnpricedComponent):
        return [size]
    region = find_region(resource, graph)
    terms = with_max_price(graph.terms_of(resource, spot=machine.is_spot), machine.max_spot_price)
    component = CostComponent(
        "machine",
        (size,),
        "azure",
        region,
        terms=terms,
        hours_per_month=terms.billed_hours,
        claim=reservation_claim(resource, graph, RESERVATION_PATH) if machine.targets_reservation else None,
    )
    disks = attached_disk_components(machine.disks, PartContext("azure", region, terms.pool))
    return [component, *disks, *licence_components(machine)]

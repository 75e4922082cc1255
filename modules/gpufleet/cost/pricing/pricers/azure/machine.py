"""Azure virtual machines: the machine, its disks, and the reservation that may cover it."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    RESERVATION_PATH,
    licence_components,
    make_reservation_claim,
    parse_virtual_machine_inputs,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource


def price_virtual_machine(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return one virtual machine with its disks."""
    machine = parse_virtual_machine_inputs(resource.inputs)
    size = text_or_unpriced(machine.size, "machine size")
    if isinstance(size, UnpricedComponent):
        return [size]
    region = find_region(resource, graph)
    terms = with_max_spot_price(
        graph.purchase_terms_of(resource, spot=machine.is_spot), machine.max_spot_price
    )
    component = CostComponent(
        "machine",
        (size,),
        "azure",
        region,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        claim=make_reservation_claim(resource, graph, RESERVATION_PATH)
        if machine.targets_reservation
        else None,
    )
    disks = attached_disk_components(machine.disks, MachinePartContext("azure", region, terms.pool))
    return [component, *disks, *licence_components(machine)]

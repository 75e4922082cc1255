"""Azure virtual machines: the machine, its disks, and the reservation that may cover it."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.demand import Around, Claim, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import azure_parts
from gpufleet.cost.pricers.common import named
from gpufleet.cost.values import dig, text
from gpufleet.engine import Resource

GROUP = "azure-native:compute:CapacityReservationGroup"


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill one virtual machine."""
    where = azure_parts.region(resource, graph)
    terms = graph.terms(resource, spot=is_spot(resource.inputs))
    machine = named(resource.inputs, "machine size", "hardwareProfile", "vmSize")
    if isinstance(machine, Gap):
        return [machine]
    wanted = claim(resource, graph, ("capacityReservation", "capacityReservationGroup", "id"))
    main = Demand("machine", (machine,), "azure", where, terms=terms, hours=terms.billed_hours, claim=wanted)
    around = Around("azure", where, terms.pool)
    return [main, *azure_parts.attached(dig(resource.inputs, "storageProfile"), around)]


def is_spot(inputs: Any) -> bool | None:
    """Tell what the priority says; None where it says nothing."""
    priority = text(inputs, "priority")
    return None if priority is None else priority in ("Spot", "Low")


def claim(resource: Resource, graph: Graph, path: tuple[str | int, ...]) -> Claim | None:
    """Return the capacity reservation group that a machine is put in: Azure has no implicit match."""
    if dig(resource.inputs, *path) is None:
        return None
    group = graph.target(resource, path, GROUP)
    return Claim(target=group.urn if group else "outside this stack")

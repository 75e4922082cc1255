"""Azure virtual machines: the machine, its disks, and the reservation that may cover it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import read_number, read_text, read_value
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers import azure_parts
from gpufleet.cost.pricing.pricers.common import named
from gpufleet.engine import Marker, Resource

GROUP = "azure-native:compute:CapacityReservationGroup"


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill one virtual machine."""
    where = azure_parts.region(resource, graph)
    terms = capped(graph.terms_of(resource, spot=is_spot(resource.inputs)), resource.inputs)
    machine = named(resource.inputs, "machine size", "hardwareProfile", "vmSize")
    if isinstance(machine, UnpricedComponent):
        return [machine]
    wanted = claim(resource, graph, ("capacityReservation", "capacityReservationGroup", "id"))
    main = CostComponent(
        "machine", (machine,), "azure", where, terms=terms, hours_per_month=terms.billed_hours, claim=wanted
    )
    around = PartContext("azure", where, terms.pool)
    disks = azure_parts.attached(read_value(resource.inputs, "storageProfile"), around)
    return [main, *disks, *licence(resource.inputs)]


def capped(terms: Terms, inputs: Any) -> Terms:
    """Return the terms with the most that is paid for spot; -1, up to on-demand, is none."""
    most = read_number(inputs, "billingProfile", "maxPrice")
    return replace(terms, max_price=most) if isinstance(most, Decimal) else terms


def licence(profile: Any) -> Components:
    """Name the Windows licence that a machine is billed with, unless one is brought along."""
    windows = isinstance(read_value(profile, "osProfile", "windowsConfiguration"), dict)
    windows = windows or read_text(profile, "storageProfile", "osDisk", "osType") == "Windows"
    if not windows or read_text(profile, "licenseType") in ("Windows_Server", "Windows_Client"):
        return []
    return [UnpricedComponent("its Windows licence: prices here are those of Linux machines", "licence")]


def is_spot(inputs: Any) -> bool | Marker | None:
    """Tell what the priority says; None where it says nothing, a marker where nobody knows."""
    priority = read_text(inputs, "priority")
    return priority if priority is None or isinstance(priority, Marker) else priority in ("Spot", "Low")


def claim(resource: Resource, graph: Graph, path: tuple[str | int, ...]) -> ReservationClaim | None:
    """Return the capacity reservation group that a machine is put in: Azure has no implicit match."""
    if read_value(resource.inputs, *path) is None:
        return None
    group = graph.find_target(resource, path, GROUP)
    return ReservationClaim(target_urn=group.urn if group else "outside this stack")

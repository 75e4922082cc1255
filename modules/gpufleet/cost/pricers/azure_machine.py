"""Azure virtual machines: the machine, its disks, and the reservation that may cover it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.demand import Around, Claim, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import azure_parts
from gpufleet.cost.pricers.common import named
from gpufleet.cost.terms import Terms
from gpufleet.cost.values import dig, number, text
from gpufleet.engine import Marker, Resource

GROUP = "azure-native:compute:CapacityReservationGroup"


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill one virtual machine."""
    where = azure_parts.region(resource, graph)
    terms = capped(graph.terms(resource, spot=is_spot(resource.inputs)), resource.inputs)
    machine = named(resource.inputs, "machine size", "hardwareProfile", "vmSize")
    if isinstance(machine, Gap):
        return [machine]
    wanted = claim(resource, graph, ("capacityReservation", "capacityReservationGroup", "id"))
    main = Demand("machine", (machine,), "azure", where, terms=terms, hours=terms.billed_hours, claim=wanted)
    around = Around("azure", where, terms.pool)
    disks = azure_parts.attached(dig(resource.inputs, "storageProfile"), around)
    return [main, *disks, *licence(resource.inputs)]


def capped(terms: Terms, inputs: Any) -> Terms:
    """Return the terms with the most that is paid for spot; -1, up to on-demand, is none."""
    most = number(inputs, "billingProfile", "maxPrice")
    return replace(terms, max_price=most) if isinstance(most, Decimal) else terms


def licence(profile: Any) -> Findings:
    """Name the Windows licence that a machine is billed with, unless one is brought along."""
    windows = isinstance(dig(profile, "osProfile", "windowsConfiguration"), dict)
    windows = windows or text(profile, "storageProfile", "osDisk", "osType") == "Windows"
    if not windows or text(profile, "licenseType") in ("Windows_Server", "Windows_Client"):
        return []
    return [Gap("its Windows licence: prices here are those of Linux machines", "licence")]


def is_spot(inputs: Any) -> bool | Marker | None:
    """Tell what the priority says; None where it says nothing, a marker where nobody knows."""
    priority = text(inputs, "priority")
    return priority if priority is None or isinstance(priority, Marker) else priority in ("Spot", "Low")


def claim(resource: Resource, graph: Graph, path: tuple[str | int, ...]) -> Claim | None:
    """Return the capacity reservation group that a machine is put in: Azure has no implicit match."""
    if dig(resource.inputs, *path) is None:
        return None
    group = graph.target(resource, path, GROUP)
    return Claim(target=group.urn if group else "outside this stack")

"""File systems with a capacity that is paid for as a whole: Filestore, NetApp volumes, Parallelstore, Lustre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import service_context
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

# Filestore's tiers by the name that they are billed under (cloud.google.com/filestore/pricing, read 2026-11-23).
FILESTORE_TIERS = {
    "STANDARD": "basic_hdd",
    "BASIC_HDD": "basic_hdd",
    "PREMIUM": "basic_ssd",
    "BASIC_SSD": "basic_ssd",
    "HIGH_SCALE_SSD": "zonal",
    "ZONAL": "zonal",
    "REGIONAL": "regional",
    "ENTERPRISE": "regional",
}


@dataclass(frozen=True)
class FileSystemInputs:
    """The capacity of a file system, and the tier or level by which a GiB has its price."""

    capacity_gib: Number
    tier: Text


def parse_filestore_inputs(inputs: Any) -> FileSystemInputs:
    """Parse a Filestore instance."""
    return FileSystemInputs(
        read_input_number(inputs, "fileShares", "capacityGb"), read_input_text(inputs, "tier")
    )


def parse_netapp_pool_inputs(inputs: Any) -> FileSystemInputs:
    """Parse a NetApp storage pool, which bills for the volumes in it."""
    return FileSystemInputs(read_input_number(inputs, "capacityGib"), read_input_text(inputs, "serviceLevel"))


def parse_lustre_inputs(inputs: Any) -> FileSystemInputs:
    """Parse a Lustre instance: its tier is the throughput of a TiB."""
    return FileSystemInputs(
        read_input_number(inputs, "capacityGib"), read_input_text(inputs, "perUnitStorageThroughput")
    )


def parse_parallelstore_inputs(inputs: Any) -> FileSystemInputs:
    """Parse a Parallelstore instance, which has one tier."""
    return FileSystemInputs(read_input_number(inputs, "capacityGib"), "scratch")


def price_filestore(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Filestore instance by its tier and capacity."""
    system = parse_filestore_inputs(resource.inputs)
    if isinstance(system.tier, str) and system.tier not in FILESTORE_TIERS:
        return [UnpricedComponent(f"no price for the Filestore tier {system.tier}", "capacity")]
    tier = FILESTORE_TIERS[system.tier] if isinstance(system.tier, str) else system.tier
    return _capacity_components(resource, graph, FileSystemInputs(system.capacity_gib, tier), "filestore")


def price_netapp_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a NetApp storage pool by its service level and capacity."""
    return _capacity_components(resource, graph, parse_netapp_pool_inputs(resource.inputs), "netapp")


def price_lustre(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Lustre instance by its throughput and capacity."""
    return _capacity_components(resource, graph, parse_lustre_inputs(resource.inputs), "lustre")


def price_parallelstore(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Parallelstore instance by its capacity."""
    return _capacity_components(resource, graph, parse_parallelstore_inputs(resource.inputs), "parallelstore")


def _capacity_components(
    resource: StateResource, graph: ResourceGraph, system: FileSystemInputs, service: str
) -> Components:
    capacity_gib = number_or_unpriced(system.capacity_gib, "its capacity", "capacity")
    tier = text_or_unpriced(system.tier, "its tier", "capacity")
    if isinstance(capacity_gib, UnpricedComponent):
        return [capacity_gib]
    if isinstance(tier, UnpricedComponent):
        return [tier]
    context = service_context(resource, graph)
    return [context.make_part_component("capacity", f"{service}:{tier.lower()}", capacity_gib)]

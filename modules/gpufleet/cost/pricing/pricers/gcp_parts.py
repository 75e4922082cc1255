"""Persistent disks, addresses, and where a GCP resource is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.common import licence, size_gib, unsaid
from gpufleet.cost.pricing.region import gcp_region
from gpufleet.engine import Resource

DEFAULT_KIND = "pd-standard"  # what Compute Engine makes where no disk type is asked for
LOCAL_SSD = "local-ssd"  # its name in the price list
LOCAL_SSD_GIB = Decimal(375)  # the one size a local SSD comes in
# How node pools ask for local SSDs, and by which interface those are attached (the provider's documentation).
NODE_DISKS: dict[tuple[str, ...], str] = {
    ("localSsdCount",): "SCSI",
    ("ephemeralStorageLocalSsdConfig", "localSsdCount"): "NVME",
    ("localNvmeSsdBlockConfig", "localSsdCount"): "NVME",
}
# Types that come with local SSDs: those whose price here holds them (gcosts-pricing.yml, which prices the machine
# whole), and those whose source says no-local-ssd (SkyPilot's catalogue; see the notes of catalog/data/prices.csv).
WITH_DISKS_IN_PRICE = ("a2-ultragpu-", "a3-highgpu-")
WITH_DISKS_BESIDE = ("a3-megagpu-", "a3-ultragpu-")


def region(resource: Resource, graph: Graph) -> str:
    """Return the region: the resource's own, its zone's, or its provider's."""
    provider = graph.find_provider(resource)
    places = [read_text(resource.inputs, key) for key in ("region", "zone", "location")]
    places += [read_text(resource.outputs, key) for key in ("region", "zone")]
    places += [read_text(provider.inputs, key) for key in ("region", "zone")] if provider else []
    return next((gcp_region(name) for name in places if isinstance(name, str)), "")


def disk(resource: Resource, graph: Graph) -> Components:
    """Bill a disk of its own, for as long as it is there."""
    around = PartContext("gcp", region(resource, graph), graph.terms_of(resource).pool)
    return [_disk("disk", resource.inputs, ("size", "type"), around)]


def regional_disk(resource: Resource, graph: Graph) -> Components:
    """Bill a disk that is kept in two zones, which has a price of its own."""
    around = PartContext("gcp", region(resource, graph), graph.terms_of(resource).pool)
    return [_disk("disk", resource.inputs, ("size", "type"), around, prefix="regional-")]


def address(resource: Resource, graph: Graph) -> Components:
    """Bill a reserved external address around the clock; internal ones are free."""
    if read_text(resource.inputs, "addressType") == "INTERNAL":
        return []
    return [
        PartContext("gcp", region(resource, graph), graph.terms_of(resource).pool).part_component(
            "public_ipv4", "public_ipv4"
        )
    ]


def attached(inputs: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the boot and scratch disks of an instance; a stopped one keeps them, so they bill all month."""
    yield from unsaid(inputs, "its boot disk is", "disk:boot", "bootDisk")
    yield from unsaid(inputs, "its local disks are", "disk:local0", "scratchDisks")
    if read_value(inputs, "bootDisk", "source") is None:
        boot = read_value(inputs, "bootDisk", "initializeParams") or {}
        yield _disk("disk:boot", boot, ("size", "type"), around)
    yield from scratch(inputs, len(read_list(inputs, "scratchDisks")), around)


def scratch(inputs: Any, count: int, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill local SSDs, but for those that the machine's price holds; name those that come without being asked for."""
    machine = read_text(inputs, "machineType")
    short = machine.rsplit("/", 1)[-1] if isinstance(machine, str) else ""
    if short.startswith(WITH_DISKS_IN_PRICE):
        return
    if not count and short.startswith(WITH_DISKS_BESIDE):
        yield UnpricedComponent(
            f"the local SSDs that {short} comes with are not in its price here", "disk:local0"
        )
    for at in range(count):
        yield around.part_component(f"disk:local{at}", LOCAL_SSD, LOCAL_SSD_GIB)


def local_disks(machine: str, inputs: Any) -> list[str]:
    """Return the local SSDs that a machine, template, node pool or reservation asks for, each in words."""
    if machine.startswith(WITH_DISKS_IN_PRICE + WITH_DISKS_BESIDE):
        return []
    told = [*read_list(inputs, "scratchDisks"), *read_list(inputs, "localSsds")]
    told += [each for each in read_list(inputs, "disks") if read_text(each, "type") == "SCRATCH"]
    found = [str(read_text(each, "interface") or "SCSI").upper() for each in told]
    for path, interface in NODE_DISKS.items():
        cards = read_number(inputs, *path)
        found += [interface] * (int(cards) if isinstance(cards, Decimal) else 0)
    return sorted(found)


def templated(inputs: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the disks of an instance template."""
    yield from unsaid(inputs, "its disks are", "disk:boot", "disks")
    listed = read_list(inputs, "disks")
    yield from scratch(inputs, sum(read_text(each, "type") == "SCRATCH" for each in listed), around)
    for at, each in enumerate(listed):
        if read_text(each, "type") != "SCRATCH":
            yield _disk(f"disk:{at}" if at else "disk:boot", each, ("diskSizeGb", "diskType"), around)


def licences(inputs: Any) -> list[UnpricedComponent]:
    """Name the licence of the image that a machine, template or node pool boots from."""
    boots = [read_text(inputs, "bootDisk", "initializeParams", "image"), read_text(inputs, "imageType")]
    boots += [read_text(each, "sourceImage") for each in read_list(inputs, "disks")]
    found = (licence(name) for name in boots if isinstance(name, str))
    return next((gaps for gaps in found if gaps), [])


def addresses(inputs: Any, around: PartContext, *, spot: bool) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the external addresses that network interfaces ask for; those of spot machines are cheaper."""
    yield from unsaid(inputs, "its network cards are", "public_ipv4", "networkInterfaces")
    asked = sum(len(read_list(card, "accessConfigs")) for card in read_list(inputs, "networkInterfaces"))
    if asked:
        found = around.part_component("public_ipv4", "public_ipv4", Decimal(asked))
        yield replace(found, terms=replace(found.terms, purchase="spot")) if spot else found


def _disk(
    component: str, inputs: Any, keys: tuple[str, str], around: PartContext, prefix: str = ""
) -> CostComponent | UnpricedComponent:
    gib, kind = size_gib(inputs, keys[0]), read_text(inputs, keys[1])
    if isinstance(gib, UnpricedComponent):
        return UnpricedComponent(gib.reason, component)
    if kind is not None and not isinstance(kind, str):
        return UnpricedComponent("disk type is not known until deployment", component)
    name = kind.rsplit("/", 1)[-1] if kind else DEFAULT_KIND
    return around.part_component(component, prefix + name, gib)

"""What an AWS machine is beside its type: on whose hardware it runs, which system, and in whose stead it bills."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricers.aws_places import subnets
from gpufleet.cost.pricers.common import licence
from gpufleet.cost.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.values import MARKER_REASONS, read_text, read_value
from gpufleet.engine import Marker, Resource

LINUX, SHARED = "Linux/UNIX", "default"  # what reservations and instances are where nothing else is asked for
IN_BLOCK = "runs in a capacity block, which is prepaid: its price is not in the price list"
ON_HOST = "runs on a dedicated host, which bills in its stead: hosts are not in the price list"
ALONE = "dedicated tenancy bills more than the price counted, which is that of shared hardware"
ADDRESSES = (("aws:ec2/eip:Eip", "instance"), ("aws:ec2/eipAssociation:EipAssociation", "instanceId"))


def instead(inputs: Any) -> UnpricedComponent | None:
    """Return why a machine of such an instance or template bills nothing itself, where something else does."""
    if read_text(inputs, "instanceMarketOptions", "marketType") == "capacity-block":
        return UnpricedComponent(IN_BLOCK, "machine")
    on_host = tenancy(inputs) == "host" or read_value(inputs, "hostId") is not None
    return UnpricedComponent(ON_HOST, "machine") if on_host else None


def surcharges(inputs: Any) -> Components:
    """Name what such a machine bills on top of its price here."""
    found: Components = (
        [UnpricedComponent(ALONE, "dedicated_tenancy")] if tenancy(inputs) == "dedicated" else []
    )
    return [*found, *licence(platform(inputs))]


def platform(inputs: Any) -> str:
    """Return what a machine runs, as reservations name it: Linux, as prices are of, where nothing says Windows."""
    images = [read_text(inputs, key) for key in ("ami", "imageId", "amiType")]
    windows = any("windows" in image.lower() for image in images if isinstance(image, str))
    return "Windows" if windows or read_value(inputs, "getPasswordData") is True else LINUX


def tenancy(inputs: Any) -> str:
    """Return whether a machine shares its host, as the inputs of an instance or a template say."""
    found = (
        read_text(inputs, "tenancy")
        or read_text(inputs, "placement", "tenancy")
        or read_text(inputs, "placementTenancy")
    )
    return found if isinstance(found, str) else SHARED


def address(resource: Resource, graph: Graph, asked: Any, around: PartContext) -> Components:
    """Bill a public address: as the machine asks, else as its subnets do; an elastic one takes its place."""
    if any(graph.find_referrers(resource, (key,), holder) for holder, key in ADDRESSES):
        return []
    if isinstance(asked, Marker):
        return [UnpricedComponent(f"whether it has a public address is {MARKER_REASONS[asked]}", ADDRESS)]
    if asked is not None:
        return [around.part_component(ADDRESS, ADDRESS)] if asked in (True, "true") else []
    given = [read_value(each.inputs, "mapPublicIpOnLaunch") is True for each in subnets(resource, graph)]
    if not any(given):
        return []
    found = around.part_component(ADDRESS, ADDRESS)
    return [found if all(given) else _perhaps(found)]


def _perhaps(found: CostComponent) -> CostComponent:
    """Return what only machines in some of the subnets have: none of them, or all."""
    count = found.count
    return CostComponent(**{**vars(found), "count": Range(ZERO, count.expected, count.high)})


def host(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name a dedicated host: it bills by its family, whatever runs on it."""
    kind = read_text(resource.inputs, "instanceFamily") or read_text(resource.inputs, "instanceType")
    return [
        UnpricedComponent(
            f"a dedicated host of {kind if isinstance(kind, str) else 'its family'} is not in the price list",
            "host",
        )
    ]

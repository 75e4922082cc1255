"""Where a resource is, in the price list's spelling."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import MARKER_REASONS, Text, read_reference
from gpufleet.engine import StateResource, UnreadableValue

_AWS_REGION = r"[a-z]{2}(?:-[a-z]+)+-\d"
_AWS_ZONE = re.compile(rf"^({_AWS_REGION})[a-z]$")
# Local zones and Wavelength zones have prices of their own, under names that their zones do not have.
_AWS_LOCAL_ZONE = re.compile(rf"^({_AWS_REGION}-[a-z]{{3}}-\d)[a-z]$")
_AWS_WAVELENGTH_ZONE = re.compile(rf"^({_AWS_REGION}-wl\d)-([a-z]{{3}})-wlz-(\d)$")
_FIRST_WAVELENGTH_CITIES = {"us-east-1-wl1-bos": "us-east-1-wl1", "us-west-2-wl1-sfo": "us-west-2-wl1"}
_GCP_ZONE = re.compile(r"^([a-z]+-[a-z]+\d+)-[a-z]$")
HIDDEN_REGION = "a region that is"  # not known until deployment, or a secret
_PLACE_KEYS = ("region", "zone", "location")


def describe_hidden_region(marker: UnreadableValue) -> str:
    """Return what a bill has instead of a region that is unknown or a secret: no price is there."""
    return f"{HIDDEN_REGION} {MARKER_REASONS[marker]}"


def find_place_sources(
    resource: StateResource, read_place: Callable[[StateResource], Text], graph: ResourceGraph
) -> list[StateResource]:
    """Return the resources whose outputs an unknown place is, such as a resource group without a location.

    They are of the same package and give no place themselves: of one that does, the place would be known, and the
    output is another one. Empty if any is not such a resource.
    """
    package, sources = resource.type.partition(":")[0], {}
    pending, visited = [resource], {resource.urn}
    while pending:
        for urn in _place_dependencies(pending.pop()):
            source = graph.get_resource(urn)
            place = read_place(source) if source else None
            if source is None or source.type.partition(":")[0] != package or isinstance(place, str):
                return []
            if place is None:
                sources[urn] = source
            elif urn not in visited:
                visited.add(urn)
                pending.append(source)
    return list(sources.values())


def _place_dependencies(resource: StateResource) -> list[str]:
    """Return the URNs that the unreadable places of a resource were made from."""
    keys = (
        each for each in _PLACE_KEYS if isinstance(read_reference(resource.inputs, each), UnreadableValue)
    )
    return [urn for key in keys for urn in resource.property_dependencies.get(key, ())]


def aws_region_of_zone(zone: str) -> str:
    """Return the place of an AWS zone in the price list: us-east-1a is in us-east-1.

    A local zone has prices of its own: us-west-2-lax-1a is in us-west-2-lax-1. A Wavelength zone is priced by its
    city: us-east-1-wl1-nyc-wlz-1 as us-east-1-wl1-nyc1.
    """
    if match := _AWS_ZONE.match(zone) or _AWS_LOCAL_ZONE.match(zone):
        return match.group(1)
    if match := _AWS_WAVELENGTH_ZONE.match(zone):
        network, city, number = match.groups()
        return _FIRST_WAVELENGTH_CITIES.get(f"{network}-{city}", f"{network}-{city}{number}")
    return zone


def is_aws_edge(place: str) -> bool:
    """Return whether a place is a local zone or a Wavelength zone, of a region that it is not."""
    return bool(_AWS_LOCAL_ZONE.match(f"{place}a")) or "-wl" in place


def gcp_region_of_zone(zone: str) -> str:
    """Return the region of a GCP zone, given by name or by URL: us-central1-a is in us-central1."""
    name = zone.rsplit("/", 1)[-1]
    match = _GCP_ZONE.match(name)
    return match.group(1) if match else name


def normalize_azure_location(location: str) -> str:
    """Return Azure's short spelling: "East US 2" is eastus2."""
    return re.sub(r"[^a-z0-9]", "", location.lower())

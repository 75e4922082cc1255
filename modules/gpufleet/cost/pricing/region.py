"""Where a resource is, in the price list's spelling."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import MARKER_REASONS, Text, read_reference
from gpufleet.engine import StateResource, UnreadableValue

_AWS_ZONE = re.compile(r"^([a-z]{2}(?:-[a-z]+)+-\d)[a-z]$")
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
    """Return the region of an AWS zone: us-east-1a is in us-east-1."""
    match = _AWS_ZONE.match(zone)
    return match.group(1) if match else zone


def gcp_region_of_zone(zone: str) -> str:
    """Return the region of a GCP zone, given by name or by URL: us-central1-a is in us-central1."""
    name = zone.rsplit("/", 1)[-1]
    match = _GCP_ZONE.match(name)
    return match.group(1) if match else name


def normalize_azure_location(location: str) -> str:
    """Return Azure's short spelling: "East US 2" is eastus2."""
    return re.sub(r"[^a-z0-9]", "", location.lower())

"""In which zones AWS machines may be: their own argument, or the subnets that they are put in."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.graph import Graph, unversioned_type
from gpufleet.cost.values import read_list, read_text, read_value
from gpufleet.engine import Resource

SUBNETS = (
    "aws:ec2/subnet:Subnet",
    "aws:ec2/defaultSubnet:DefaultSubnet",
)
ONE_SUBNET = ("subnetId",)
SEVERAL = (("vpcZoneIdentifiers",), ("subnetIds",))


def zones(resource: Resource, graph: Graph, inputs: Any = None) -> frozenset[str]:
    """Return the zones that machines of a resource may be in; none where nobody knows."""
    said = resource.inputs if inputs is None else inputs
    for path in (("availabilityZone",), ("placement", "availabilityZone")):
        if isinstance(own := read_text(said, *path), str):
            return frozenset({own})
    listed = read_list(said, "availabilityZones")
    if listed and all(isinstance(each, str) for each in listed):
        return frozenset(listed)
    found = [read_text(each.inputs, "availabilityZone") for each in subnets(resource, graph, said)]
    return (
        frozenset(str(zone) for zone in found)
        if all(isinstance(zone, str) for zone in found)
        else frozenset()
    )


def subnets(resource: Resource, graph: Graph, inputs: Any = None) -> list[Resource]:
    """Return the subnets of this stack that a resource is put in; none where one of them is not of this stack."""
    said = resource.inputs if inputs is None else inputs
    if read_value(said, *ONE_SUBNET) is not None:
        only = graph.find_target(resource, ONE_SUBNET, *SUBNETS)
        return [only] if only else []
    path = next((path for path in SEVERAL if read_value(said, *path) is not None), None)
    if path is None:
        return []
    told = read_list(said, *path)
    found = [graph.find_target(resource, (*path, at), *SUBNETS) for at in range(len(told))]
    if told and all(found):
        return [each for each in found if each]
    made_from = map(graph.get, resource.property_dependencies.get(path[0], ()))
    known = [each for each in made_from if each and unversioned_type(each.type) in SUBNETS]
    return known if len(known) >= max(1, len(told)) else []

"""Dedicated hosts, which bill by their family, whatever runs on them."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import known_text, read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import Resource


def price_dedicated_host(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return a dedicated host without a price."""
    name = read_text(resource.inputs, "instanceFamily") or read_text(resource.inputs, "instanceType")
    family = known_text(name)
    family = "its family" if family is None else family
    return [UnpricedComponent(f"a dedicated host of {family} is not in the price list", "host")]

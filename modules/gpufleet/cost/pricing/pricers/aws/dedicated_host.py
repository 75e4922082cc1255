"""Dedicated hosts, which bill by their family, whatever runs on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Text, read_input_text, text_if_known
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class DedicatedHostInputs:
    """The inputs of a dedicated host, which is of one instance type or of all types of a family."""

    instance_family: Text
    instance_type: Text


def parse_dedicated_host_inputs(inputs: Any) -> DedicatedHostInputs:
    """Parse a dedicated host."""
    return DedicatedHostInputs(
        read_input_text(inputs, "instanceFamily"), read_input_text(inputs, "instanceType")
    )


def price_dedicated_host(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return a dedicated host without a price."""
    host = parse_dedicated_host_inputs(resource.inputs)
    family = text_if_known(host.instance_family or host.instance_type)
    machines = "its family" if family is None else family
    return [UnpricedComponent(f"a dedicated host of {machines} is not in the price list", "host")]

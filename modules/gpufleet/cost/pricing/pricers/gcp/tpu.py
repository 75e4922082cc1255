"""Cloud TPUs: slices of chips, by the accelerator type or the topology.

Accelerator types of v2, v3, v4 and v5p count cores, two for each chip. Those of v5e and v6e count chips
(cloud.google.com/tpu/docs/v5p and /tpu/docs/v6e, read 2026-11-23).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from math import prod
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Text,
    is_input_true,
    read_input,
    read_input_list,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.engine import StateResource, UnreadableValue

DEFAULT_TYPE = "v2-8"  # of a TPU without a type
CORES_PER_CHIP = 2
VERSION_NAMES = {"V2": "v2", "V3": "v3", "V4": "v4", "V5LITE_POD": "v5e", "V5P": "v5p", "V6E": "v6e"}
VERSIONS_COUNTED_IN_CHIPS = ("v5e", "v6e")
_TYPE = re.compile(r"(v\d+[a-z]*)-(\d{1,6})\Z")
_TOPOLOGY = re.compile(r"\d{1,4}(?:x\d{1,4}){1,2}\Z")


@dataclass(frozen=True)
class TpuInputs:
    """The inputs of one TPU slice."""

    accelerator_type: Text
    version: Text
    topology: Text
    is_spot: bool

    @property
    def is_hidden(self) -> UnreadableValue | None:
        """The marker of an input that decides the price and cannot be read."""
        values = (self.accelerator_type, self.version, self.topology)
        return next((value for value in values if isinstance(value, UnreadableValue)), None)


def parse_tpu_inputs(inputs: Any) -> TpuInputs:
    """Parse a TPU machine, or a node of a queued resource."""
    return TpuInputs(
        accelerator_type=read_input_text(inputs, "acceleratorType"),
        version=read_input_text(inputs, "acceleratorConfig", "type"),
        topology=read_input_text(inputs, "acceleratorConfig", "topology"),
        is_spot=is_input_true(inputs, "schedulingConfig", "spot")
        or is_input_true(inputs, "schedulingConfig", "preemptible"),
    )


def price_tpu_vm(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the chips of one slice, and the external addresses of its hosts without a number."""
    chips = _slice_component(resource, graph, parse_tpu_inputs(resource.inputs), "machine")
    if not is_input_true(resource.inputs, "networkConfig", "enableExternalIps"):
        return [chips]
    reason = "each of its hosts has an external address, and its type does not tell how many hosts there are"
    return [chips, UnpricedComponent(reason, ADDRESS)]


def price_queued_tpu(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the chips of the slices that a queued resource asks for, once it gets them."""
    specs = read_input_list(resource.inputs, "tpu", "nodeSpecs")
    if not specs:
        return [UnpricedComponent("its nodes are not known until deployment", "machine")]
    return [
        _slice_component(
            resource,
            graph,
            parse_tpu_inputs(read_input(spec, "node")),
            f"machine:{index}" if index else "machine",
        )
        for index, spec in enumerate(specs)
    ]


def _slice_component(
    resource: StateResource, graph: ResourceGraph, tpu: TpuInputs, component: str
) -> CostComponent | UnpricedComponent:
    if marker := tpu.is_hidden:
        return UnpricedComponent(f"its accelerator type is {MARKER_REASONS[marker]}", component)
    size = _parse_slice_size(tpu)
    if size is None:
        return UnpricedComponent(f"unknown TPU type {tpu.accelerator_type or tpu.version}", component)
    version, chips = size
    terms = graph.purchase_terms_of(resource, spot=tpu.is_spot or None)
    return CostComponent(
        component,
        (f"tpu:{version}",),
        "gcp",
        find_region(resource, graph),
        size=Decimal(chips),
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        is_part=True,
    )


def _parse_slice_size(tpu: TpuInputs) -> tuple[str, int] | None:
    """Return the version of a slice and its chips."""
    if isinstance(tpu.version, str) and isinstance(tpu.topology, str):
        if tpu.version not in VERSION_NAMES or not _TOPOLOGY.match(tpu.topology):
            return None
        return VERSION_NAMES[tpu.version], prod(map(int, tpu.topology.split("x")))
    match = _TYPE.match(str(tpu.accelerator_type or DEFAULT_TYPE))
    if match is None:
        return None
    version, count = match[1].replace("v5litepod", "v5e"), int(match[2])
    return version, count if version in VERSIONS_COUNTED_IN_CHIPS else max(count // CORES_PER_CHIP, 1)

"""Redshift warehouses: nodes, and what the newer nodes store."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input, read_input_number, read_input_text
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.rds import parse_copies
from gpufleet.cost.pricing.pricers.aws.service import (
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

MANAGED_STORAGE = ("ra3.", "rg.")  # nodes of these families bill what they store apart
SPECTRUM_KEY = "spectrum_data_scanned_tb"


@dataclass(frozen=True)
class RedshiftClusterInputs:
    """The inputs of a cluster; in two zones it has its nodes twice."""

    node_type: Text
    node_count: Number
    copies: Range


def parse_redshift_cluster_inputs(inputs: Any) -> RedshiftClusterInputs:
    """Parse a cluster."""
    return RedshiftClusterInputs(
        node_type=read_input_text(inputs, "nodeType"),
        node_count=read_input_number(inputs, "numberOfNodes"),
        copies=parse_copies(read_input(inputs, "multiAz")),
    )


def price_redshift_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a cluster, its managed storage, and what it scans outside."""
    cluster = parse_redshift_cluster_inputs(resource.inputs)
    node_type = text_or_unpriced(cluster.node_type, "node type", "node")
    count = number_or_unpriced(cluster.node_count, "the number of nodes", "node", Decimal(1))
    if isinstance(node_type, UnpricedComponent):
        return [node_type]
    if isinstance(count, UnpricedComponent):
        return [count]
    usage = graph.usage_of_resource(resource)
    context = make_service_context(resource, graph)
    nodes = cluster.copies * count
    components: Components = [
        make_instance_component(resource, graph, f"redshift:{node_type}", nodes, "node")
    ]
    if node_type.startswith(MANAGED_STORAGE):
        key, item = "managed_storage_gb", "redshift:managed_storage"
        components.append(context.make_usage_component("storage", item, key, usage, is_stored=True))
    if SPECTRUM_KEY in usage.amounts:
        components.append(
            context.make_usage_component("spectrum", "redshift:spectrum_tb", SPECTRUM_KEY, usage)
        )
    return components

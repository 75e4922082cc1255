"""OpenSearch and Elasticsearch domains: data, master and warm nodes, and the volumes of the data nodes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import (
    number_or_unpriced,
    text_or_unpriced,
    unpriced_if_unreadable,
)
from gpufleet.engine import StateResource, UnreadableValue

DEFAULT_NODE_TYPE = "m4.large.search"  # the provider's documentation of clusterConfig.instanceType
DEFAULT_VOLUME_TYPE = "gp2"
GP3_INCLUDED = {"iops": Decimal(3000), "throughput": Decimal(125)}
TYPES_WITH_SPEED = ("gp3", "io1")
GP3_LARGE_GIB = Decimal(1024)  # OpenSearch includes more speed in larger gp3 volumes than in these


@dataclass(frozen=True)
class SearchNodes:
    """The nodes of one role."""

    role: str
    type: Text
    count: Number


@dataclass(frozen=True)
class SearchDomainInputs:
    """The inputs of a domain; the first nodes keep the data."""

    nodes: tuple[SearchNodes, ...]
    has_volumes: bool
    hidden_volumes: UnreadableValue | None
    volume_gib: Number
    volume_type: Text
    iops: Number
    throughput: Number


def parse_search_domain_inputs(inputs: Any) -> SearchDomainInputs:
    """Parse a domain of either service."""
    config = read_input(inputs, "clusterConfig")
    nodes = [
        SearchNodes(
            "node",
            read_input_text(config, "instanceType") or DEFAULT_NODE_TYPE,
            read_input_number(config, "instanceCount"),
        )
    ]
    if is_input_true(config, "dedicatedMasterEnabled"):
        master_type = read_input_text(config, "dedicatedMasterType")
        nodes.append(SearchNodes("master", master_type, read_input_number(config, "dedicatedMasterCount")))
    if is_input_true(config, "warmEnabled"):
        warm_type = read_input_text(config, "warmType")
        nodes.append(SearchNodes("warm", warm_type, read_input_number(config, "warmCount")))
    return SearchDomainInputs(
        nodes=tuple(nodes),
        has_volumes=is_input_true(inputs, "ebsOptions", "ebsEnabled"),
        hidden_volumes=read_input_marker(inputs, "ebsOptions", "ebsEnabled"),
        volume_gib=read_input_number(inputs, "ebsOptions", "volumeSize"),
        volume_type=read_input_text(inputs, "ebsOptions", "volumeType") or DEFAULT_VOLUME_TYPE,
        iops=read_input_number(inputs, "ebsOptions", "iops"),
        throughput=read_input_number(inputs, "ebsOptions", "throughput"),
    )


def price_search_domain(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a domain and their volumes."""
    domain = parse_search_domain_inputs(resource.inputs)
    components: Components = []
    for nodes in domain.nodes:
        node_type = text_or_unpriced(nodes.type, f"{nodes.role} type", nodes.role)
        default = Decimal(1) if nodes.role == "node" else None
        count = number_or_unpriced(nodes.count, f"the number of {nodes.role}s", nodes.role, default)
        if isinstance(node_type, UnpricedComponent):
            components.append(node_type)
        elif isinstance(count, UnpricedComponent):
            components.append(count)
        else:
            item = f"opensearch:{node_type.replace('.elasticsearch', '.search')}"
            machines = Range.from_exact_value(count)
            components.append(make_instance_component(resource, graph, item, machines, nodes.role))
    count = number_or_unpriced(domain.nodes[0].count, "the number of nodes", "storage", Decimal(1))
    components += unpriced_if_unreadable(
        domain.hidden_volumes, "whether its nodes have volumes is", "storage"
    )
    if domain.has_volumes:
        context = make_service_context(resource, graph)
        components += (
            [count] if isinstance(count, UnpricedComponent) else _volume_components(domain, count, context)
        )
    return components


def _volume_components(domain: SearchDomainInputs, count: Decimal, context: MachinePartContext) -> Components:
    size_gib = number_or_unpriced(domain.volume_gib, "volume size", "storage")
    volume_type = text_or_unpriced(domain.volume_type, "volume type", "storage")
    if isinstance(size_gib, UnpricedComponent):
        return [size_gib]
    if isinstance(volume_type, UnpricedComponent):
        return [volume_type]
    item = f"opensearch:storage:{volume_type}"
    components: Components = [make_counted_component(context, "storage", item, count, size_gib)]
    if volume_type not in TYPES_WITH_SPEED:
        return components
    for unit, number in (("iops", domain.iops), ("throughput", domain.throughput)):
        name = f"storage:{unit}"
        amount = number_or_unpriced(number, f"provisioned {unit}", name, Decimal(0))
        if isinstance(amount, UnpricedComponent):
            components.append(amount)
            continue
        billed = amount - GP3_INCLUDED[unit] if volume_type == "gp3" else amount
        if billed > 0 and volume_type == "gp3" and size_gib > GP3_LARGE_GIB:
            reason = f"{unit} that OpenSearch includes in a gp3 volume above {GP3_LARGE_GIB} GiB depend on its size"
            components.append(UnpricedComponent(reason, name))
        elif billed > 0:
            components.append(make_counted_component(context, name, f"{item}:{unit}", count, billed))
    return components

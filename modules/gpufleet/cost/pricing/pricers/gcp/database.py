"""Databases that bill by capacity: Spanner, Bigtable and AlloyDB, with what they store by use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment
from gpufleet.cost.pricing.pricers.gcp.service import exact_count, service_context
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, unpriced_if_unreadable
from gpufleet.cost.pricing.region import gcp_region_of_zone
from gpufleet.engine import StateResource

ALLOYDB_CLUSTER = "gcp:alloydb/cluster:Cluster"
UNITS_PER_NODE = Decimal(1000)  # Spanner's processing units (cloud.google.com/spanner/pricing)
GIB_PER_ALLOYDB_VCPU = Decimal(8)  # cloud.google.com/alloydb/docs/choose-machine-type, read 2026-11-23
REGIONAL_CONFIG = "regional-"
NODES_UNKNOWN = "its number of nodes is not known until deployment"


@dataclass(frozen=True)
class SpannerInstanceInputs:
    """The inputs of a Spanner instance. Sizes are nodes."""

    config: Text
    edition: Text
    is_free: bool
    nodes: Range | None


@dataclass(frozen=True)
class BigtableClusterInputs:
    """The inputs of one cluster of a Bigtable instance."""

    name: Text
    zone: Text
    nodes: Range | None
    storage_type: Text


@dataclass(frozen=True)
class AlloyDbInstanceInputs:
    """The inputs of an AlloyDB instance. A regional primary runs a standby too."""

    type: Text
    availability: Text
    vcpus: Number
    read_nodes: Number


def parse_spanner_instance_inputs(inputs: Any) -> SpannerInstanceInputs:
    """Parse a Spanner instance."""
    limits = ("autoscalingConfig", "autoscalingLimits")
    if read_input(inputs, *limits) is not None:
        nodes = group_size_range(
            _nodes_of(inputs, (*limits, "minNodes"), (*limits, "minProcessingUnits")),
            None,
            _nodes_of(inputs, (*limits, "maxNodes"), (*limits, "maxProcessingUnits")),
        )
    else:
        size = _nodes_of(inputs, ("numNodes",), ("processingUnits",))
        size = Decimal(1) if size is None else size  # the provider's default
        nodes = exact_count(size) if isinstance(size, Decimal) else None
    config = read_input_text(inputs, "config")
    return SpannerInstanceInputs(
        config=last_url_segment(config) if isinstance(config, str) else config,
        edition=read_input_text(inputs, "edition"),
        is_free=read_input_text(inputs, "instanceType") == "FREE_INSTANCE",
        nodes=nodes,
    )


def parse_bigtable_instance_inputs(inputs: Any) -> tuple[BigtableClusterInputs, ...]:
    """Parse the clusters of a Bigtable instance."""
    return tuple(map(_parse_bigtable_cluster, read_input_list(inputs, "clusters")))


def parse_alloydb_instance_inputs(inputs: Any) -> AlloyDbInstanceInputs:
    """Parse an AlloyDB instance."""
    return AlloyDbInstanceInputs(
        type=read_input_text(inputs, "instanceType"),
        availability=read_input_text(inputs, "availabilityType"),
        vcpus=read_input_number(inputs, "machineConfig", "cpuCount"),
        read_nodes=read_input_number(inputs, "readPoolConfig", "nodeCount"),
    )


def price_spanner_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance's nodes, in its configuration, which is a region or several regions."""
    instance = parse_spanner_instance_inputs(resource.inputs)
    if instance.is_free:
        return []
    if not isinstance(instance.config, str):
        return [UnpricedComponent("its configuration is not known until deployment", "nodes")]
    if instance.nodes is None:
        return [UnpricedComponent(NODES_UNKNOWN, "nodes")]
    edition = instance.edition.lower() if isinstance(instance.edition, str) else "standard"
    region = instance.config.removeprefix(REGIONAL_CONFIG)
    context = service_context(
        resource, graph, region, graph.resolve_group_size(resource, instance.nodes) or instance.nodes
    )
    usage = graph.usage_of_resource(resource)
    return [
        context.make_part_component("nodes", f"spanner:{edition}:node"),
        context.make_usage_component("storage", "spanner:storage", "storage_gb", usage, is_stored=True),
        context.make_usage_component("backups", "spanner:backup", "backup_storage_gb", usage, is_stored=True),
    ]


def price_bigtable_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of each cluster, in its zone's region."""
    components: Components = [
        *unpriced_if_unreadable(read_input_marker(resource.inputs, "clusters"), "its clusters are", "nodes")
    ]
    clusters = parse_bigtable_instance_inputs(resource.inputs)
    usage = graph.usage_of_resource(resource)
    for index, cluster in enumerate(clusters):
        suffix = "" if len(clusters) == 1 else f":{index}"
        if cluster.nodes is None:
            components.append(UnpricedComponent(NODES_UNKNOWN, f"nodes{suffix}"))
            continue
        region = gcp_region_of_zone(cluster.zone) if isinstance(cluster.zone, str) else None
        context = service_context(resource, graph, region, cluster.nodes)
        kind = "hdd" if cluster.storage_type == "HDD" else "ssd"
        components += [
            context.make_part_component(f"nodes{suffix}", "bigtable:node"),
            context.make_usage_component(
                f"storage{suffix}", f"bigtable:{kind}", "storage_gb", usage, is_stored=True
            ),
        ]
    return components


def price_alloydb_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance's vCPUs and memory, in its cluster's region; a regional primary has a standby."""
    instance = parse_alloydb_instance_inputs(resource.inputs)
    vcpus = number_or_unpriced(instance.vcpus, "its number of vCPUs", "vcpus")
    nodes = number_or_unpriced(instance.read_nodes, "its number of nodes", "vcpus", Decimal(1))
    if isinstance(vcpus, UnpricedComponent):
        return [vcpus]
    if isinstance(nodes, UnpricedComponent):
        return [nodes]
    if instance.type != "READ_POOL":
        nodes = Decimal(1 if instance.availability == "ZONAL" else 2)
    cluster = graph.find_referenced_resource(resource, ("cluster",), ALLOYDB_CLUSTER)
    location = read_input_text((cluster or resource).inputs, "location")
    context = service_context(
        resource, graph, location if isinstance(location, str) else None, exact_count(nodes)
    )
    return [
        context.make_part_component("vcpus", "alloydb:vcpu", vcpus),
        context.make_part_component("memory", "alloydb:memory", vcpus * GIB_PER_ALLOYDB_VCPU),
    ]


def price_alloydb_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what a cluster stores; its instances bill by themselves."""
    context = service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    return [
        context.make_usage_component("storage", "alloydb:storage", "storage_gb", usage, is_stored=True),
        context.make_usage_component("backups", "alloydb:backup", "backup_storage_gb", usage, is_stored=True),
    ]


def _parse_bigtable_cluster(cluster: Any) -> BigtableClusterInputs:
    autoscaling = read_input(cluster, "autoscalingConfig")
    if autoscaling is None:
        size = read_input_number(cluster, "numNodes")
        size = Decimal(1) if size is None else size
        nodes = exact_count(size) if isinstance(size, Decimal) else None
    else:
        nodes = group_size_range(
            read_input_number(autoscaling, "minNodes"), None, read_input_number(autoscaling, "maxNodes")
        )
    return BigtableClusterInputs(
        name=read_input_text(cluster, "clusterId"),
        zone=read_input_text(cluster, "zone"),
        nodes=nodes,
        storage_type=read_input_text(cluster, "storageType"),
    )


def _nodes_of(inputs: Any, nodes: tuple[str, ...], units: tuple[str, ...]) -> Number:
    """Return a size in nodes, given in nodes or in processing units."""
    processing_units = read_input_number(inputs, *units)
    if isinstance(processing_units, Decimal):
        return processing_units / UNITS_PER_NODE
    return processing_units if processing_units is not None else read_input_number(inputs, *nodes)

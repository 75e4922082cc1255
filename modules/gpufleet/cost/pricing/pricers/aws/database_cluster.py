"""Clusters of databases with shared storage: Aurora, DocumentDB and Neptune, and their instances."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    number_if_known,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.rds import insights_components, rds_engine_name
from gpufleet.cost.pricing.pricers.aws.rds_support import DISABLED, price_extended_support
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

SERVERLESS_CLASS = "db.serverless"
DEFAULT_ENGINES = {"docdb": "docdb", "neptune": "neptune"}  # by service; Aurora's must be declared
IO_OPTIMIZED = ("aurora-iopt1", "iopt1")
SERVERLESS_V1_CAPACITY = (
    Decimal(1),
    Decimal(16),
)  # units: the provider's documentation of scalingConfiguration
MULTI_AZ_INSTANCES = 3  # a Multi-AZ DB cluster has a writer and two readable standbys
ACU_KEY = "capacity_units_per_hr"


@dataclass(frozen=True)
class DatabaseClusterInputs:
    """The inputs of a cluster. Capacities are units of serverless clusters, of version 1 or 2."""

    engine: Text
    engine_version: Text
    has_extended_support: bool
    engine_mode: Text
    storage_type: Text
    instance_class: Text  # of a Multi-AZ DB cluster, which has no instances of its own
    storage_gib: Number
    iops: Number
    min_capacity: Number
    max_capacity: Number
    v1_min_capacity: Number
    v1_max_capacity: Number

    @property
    def is_io_optimized(self) -> bool:
        """True if the prices of instances and storage include their I/O."""
        return self.storage_type in IO_OPTIMIZED


@dataclass(frozen=True)
class ClusterInstanceInputs:
    """The inputs of an instance of a cluster."""

    instance_class: Text
    engine: Text
    engine_version: Text


def parse_database_cluster_inputs(inputs: Any) -> DatabaseClusterInputs:
    """Parse a cluster; the spelling of the scaling configuration differs between services."""
    scaling = "serverlessv2ScalingConfiguration"
    if scaling not in inputs:
        scaling = "serverlessV2ScalingConfiguration"
    return DatabaseClusterInputs(
        engine=read_input_text(inputs, "engine"),
        engine_version=read_input_text(inputs, "engineVersion"),
        has_extended_support=read_input_text(inputs, "engineLifecycleSupport") != DISABLED,
        engine_mode=read_input_text(inputs, "engineMode"),
        storage_type=read_input_text(inputs, "storageType"),
        instance_class=read_input_text(inputs, "dbClusterInstanceClass"),
        storage_gib=read_input_number(inputs, "allocatedStorage"),
        iops=read_input_number(inputs, "iops"),
        min_capacity=read_input_number(inputs, scaling, "minCapacity"),
        max_capacity=read_input_number(inputs, scaling, "maxCapacity"),
        v1_min_capacity=read_input_number(inputs, "scalingConfiguration", "minCapacity"),
        v1_max_capacity=read_input_number(inputs, "scalingConfiguration", "maxCapacity"),
    )


def parse_cluster_instance_inputs(inputs: Any) -> ClusterInstanceInputs:
    """Parse an instance of a cluster."""
    return ClusterInstanceInputs(
        instance_class=read_input_text(inputs, "instanceClass"),
        engine=read_input_text(inputs, "engine"),
        engine_version=read_input_text(inputs, "engineVersion"),
    )


def price_aurora_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the storage and I/O of an Aurora cluster, or a Multi-AZ DB cluster with its three instances."""
    cluster = parse_database_cluster_inputs(resource.inputs)
    if isinstance(cluster.engine, str) and not cluster.engine.startswith("aurora"):
        return _multi_az_cluster_components(resource, graph, cluster, cluster.engine)
    components = _shared_storage_components(resource, graph, "aurora", cluster)
    if cluster.engine_mode == "serverless":
        low = number_if_known(cluster.v1_min_capacity) or SERVERLESS_V1_CAPACITY[0]
        high = number_if_known(cluster.v1_max_capacity) or SERVERLESS_V1_CAPACITY[1]
        units = _capacity_range(resource, graph, low, high)
        context = make_service_context(resource, graph)
        components.insert(0, make_counted_component(context, "capacity", "aurora:serverless_v1:acu", units))
    return components


def price_documentdb_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the storage and I/O of a DocumentDB cluster."""
    cluster = parse_database_cluster_inputs(resource.inputs)
    return _shared_storage_components(resource, graph, "docdb", cluster)


def price_neptune_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the storage and I/O of a Neptune cluster."""
    cluster = parse_database_cluster_inputs(resource.inputs)
    return _shared_storage_components(resource, graph, "neptune", cluster)


def price_aurora_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance of an Aurora cluster."""
    return _instance_components(resource, graph, "aws:rds/cluster:Cluster", "aurora")


def price_documentdb_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance of a DocumentDB cluster."""
    return _instance_components(resource, graph, "aws:docdb/cluster:Cluster", "docdb")


def price_neptune_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance of a Neptune cluster."""
    return _instance_components(resource, graph, "aws:neptune/cluster:Cluster", "neptune")


def _instance_components(
    resource: StateResource, graph: ResourceGraph, cluster_type: str, service: str
) -> Components:
    instance = parse_cluster_instance_inputs(resource.inputs)
    owner = graph.find_referenced_resource(resource, ("clusterIdentifier",), cluster_type)
    cluster = parse_database_cluster_inputs(owner.inputs if owner else {})
    instance_class = text_or_unpriced(instance.instance_class, "instance class", "instance")
    if isinstance(instance_class, UnpricedComponent):
        return [instance_class]
    suffix = ":io_optimized" if cluster.is_io_optimized else ""
    insights = insights_components({**(owner.inputs if owner else {}), **resource.inputs})
    if instance_class == SERVERLESS_CLASS:
        item = f"{service}:serverless_v2:acu{suffix}"
        return [*_serverless_components(resource, graph, cluster, item), *insights]
    engine = text_if_known(instance.engine) or text_if_known(cluster.engine) or DEFAULT_ENGINES.get(service)
    if engine is None:
        return [UnpricedComponent("engine is not known until deployment", "instance")]
    prefix = f"rds:{rds_engine_name(engine, None)}" if service == "aurora" else service
    components: Components = [make_instance_component(resource, graph, f"{prefix}:{instance_class}{suffix}")]
    components += insights
    if cluster.has_extended_support:
        version = instance.engine_version or cluster.engine_version
        if owner is None and version is None:  # its cluster has the version
            version = read_input_marker(resource.inputs, "clusterIdentifier")
        context = make_service_context(resource, graph)
        components += price_extended_support(
            rds_engine_name(engine, None), version, instance_class, ONE, context, on_date=graph.on_date
        )
    return components


def _serverless_components(
    resource: StateResource, graph: ResourceGraph, cluster: DatabaseClusterInputs, item: str
) -> Components:
    """Return the capacity of a serverless instance between its bounds; idle, it has the least."""
    low = number_or_unpriced(cluster.min_capacity, "the cluster's least capacity", "capacity")
    if isinstance(low, UnpricedComponent):
        return [low]
    units = _capacity_range(resource, graph, low, number_if_known(cluster.max_capacity) or low)
    return [make_counted_component(make_service_context(resource, graph), "capacity", item, units)]


def _capacity_range(resource: StateResource, graph: ResourceGraph, low: Decimal, high: Decimal) -> Range:
    used = graph.usage_of_resource(resource).amounts.get(ACU_KEY)
    expected = low if used is None else min(max(used, low), max(low, high))
    return Range.spanning(low, expected, max(low, high))


def _shared_storage_components(
    resource: StateResource, graph: ResourceGraph, service: str, cluster: DatabaseClusterInputs
) -> Components:
    context = make_service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    suffix = ":io_optimized" if cluster.is_io_optimized else ""
    components: Components = [
        context.make_usage_component(
            "storage", f"{service}:storage{suffix}", "storage_gb", usage, is_stored=True
        )
    ]
    if not cluster.is_io_optimized:
        components.append(
            context.make_usage_component("io", f"{service}:io_request", "monthly_io_requests", usage)
        )
    if "backup_storage_gb" in usage.amounts:
        key = "backup_storage_gb"
        components.append(
            context.make_usage_component("backup", f"{service}:backup", key, usage, is_stored=True)
        )
    return components


def _multi_az_cluster_components(
    resource: StateResource, graph: ResourceGraph, cluster: DatabaseClusterInputs, engine: str
) -> Components:
    """Return three instances and the storage of each."""
    instance_class = text_or_unpriced(cluster.instance_class, "instance class", "instance")
    if isinstance(instance_class, UnpricedComponent):
        return [instance_class]
    item = f"rds:cluster:{rds_engine_name(engine, None)}:{instance_class}"
    copies = Range.from_exact_value(MULTI_AZ_INSTANCES)
    context = make_service_context(resource, graph)
    components: Components = [make_instance_component(resource, graph, item, copies)]
    storage_type = text_if_known(cluster.storage_type) or "io1"
    for name, number in (("storage", cluster.storage_gib), ("storage:iops", cluster.iops)):
        amount = number_or_unpriced(number, name, name, Decimal(0))
        if isinstance(amount, UnpricedComponent):
            components.append(amount)
        elif amount:
            unit = name.removeprefix("storage")
            cluster_item = f"rds:cluster:storage:{storage_type}{unit}"
            components.append(make_counted_component(context, name, cluster_item, amount))
    return components

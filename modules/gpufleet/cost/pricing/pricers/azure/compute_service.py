"""Services that run machines: Machine Learning, Batch, HDInsight, Data Explorer, Spark pools and model deployments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ONE, ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import find_region, standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import sized_component, translated, with_inputs
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

HEAD_NODES, ZOOKEEPER_NODES = Decimal(2), Decimal(3)  # that HDInsight always makes
DWU_STEP = Decimal(100)
SPARK_VCORES = {"small": 4, "medium": 8, "large": 16, "xlarge": 32, "xxlarge": 64}
_DWU = re.compile(r"^dw(\d{3,5})c$")
_CLUSTER_SIZE = re.compile(r"^(?:dev\(no sla\)_)?(standard_[a-z]+(\d+)\w*)$", re.IGNORECASE)


# Of a workspace (the API's ComputeType); those without machines of the workspace's own bill elsewhere.
COMPUTE_TYPES = (
    "AKS",
    "AmlCompute",
    "ComputeInstance",
    "DataFactory",
    "DataLakeAnalytics",
    "Databricks",
    "HDInsight",
    "Kubernetes",
    "SynapseSpark",
    "VirtualMachine",
)


@dataclass(frozen=True)
class MachineGroupInputs:
    """Machines that a service runs: their size, how many, and whether they are spot."""

    size: Text
    count: Range | None
    is_spot: bool | UnreadableValue | None = None


@dataclass(frozen=True)
class SynapsePoolInputs:
    """The performance level of a SQL pool."""

    sku: Text


@dataclass(frozen=True)
class ModelDeploymentInputs:
    """The kind of a model deployment, its capacity (provisioned throughput units) and model."""

    sku: Text
    capacity: Number
    model: Text


def parse_ml_compute_inputs(inputs: Any) -> MachineGroupInputs | UnreadableValue | None:
    """Parse a compute of a workspace; None for one that is billed elsewhere, such as an attached cluster."""
    kind = read_input_choice(inputs, COMPUTE_TYPES, "properties", "computeType")
    settings = read_input(inputs, "properties", "properties")
    size = read_input_text(settings, "vmSize")
    if kind == "ComputeInstance":
        return MachineGroupInputs(size, ONE)
    if isinstance(kind, UnreadableValue):
        return kind
    if kind != "AmlCompute":
        return None
    minimum = read_input_number(settings, "scaleSettings", "minNodeCount")
    maximum = read_input_number(settings, "scaleSettings", "maxNodeCount")
    count = group_size_range(ZERO if minimum is None else minimum, None, maximum)
    priority = read_input_text(settings, "vmPriority")
    is_spot = priority == "LowPriority" if isinstance(priority, str) else priority
    return MachineGroupInputs(size, count, is_spot)


def parse_online_deployment_inputs(inputs: Any) -> MachineGroupInputs:
    """Parse a deployment of a managed endpoint."""
    count = read_input_number(inputs, "sku", "capacity")
    return MachineGroupInputs(
        read_input_text(inputs, "properties", "instanceType"),
        group_size_range(Decimal(1) if count is None else count, None, None),
    )


def parse_batch_pool_inputs(inputs: Any) -> tuple[MachineGroupInputs, MachineGroupInputs]:
    """Parse the dedicated and the spot machines of a Batch pool."""
    size = read_input_text(inputs, "vmSize")
    path = ("scaleSettings", "fixedScale")
    dedicated = read_input_number(inputs, *path, "targetDedicatedNodes")
    spot = read_input_number(inputs, *path, "targetLowPriorityNodes")
    return (
        MachineGroupInputs(size, group_size_range(ZERO if dedicated is None else dedicated, None, None)),
        MachineGroupInputs(size, group_size_range(ZERO if spot is None else spot, None, None), is_spot=True),
    )


def price_ml_compute(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a compute cluster between its bounds, or of a compute instance."""
    compute = parse_ml_compute_inputs(resource.inputs)
    if isinstance(compute, UnreadableValue):
        return [UnpricedComponent(f"its kind is {MARKER_REASONS[compute]}", "machine")]
    return [] if compute is None else _machine_components(resource, graph, compute)


def price_online_deployment(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a deployment, which run around the clock."""
    return _machine_components(resource, graph, parse_online_deployment_inputs(resource.inputs))


def price_batch_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a pool of fixed size; the size of one with a formula is not declared."""
    if read_input(resource.inputs, "scaleSettings", "autoScale") is not None:
        return [UnpricedComponent("its size follows a formula", "machine")]
    dedicated, spot = parse_batch_pool_inputs(resource.inputs)
    components: Components = []
    for group, name in ((dedicated, "machine"), (spot, "machine:spot")):
        if group.count is None or group.count.high > 0:
            components += _machine_components(resource, graph, group, name)
    return components


def price_hdinsight(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a cluster by role; their prices include the machine."""
    context = standalone_part_context(resource, graph)
    components: Components = []
    for role in read_input_list(resource.inputs, "properties", "computeProfile", "roles"):
        name = read_input_text(role, "name")
        label = name if isinstance(name, str) else "nodes"
        size = text_or_unpriced(read_input_text(role, "hardwareProfile", "vmSize"), "node size", label)
        if isinstance(size, UnpricedComponent):
            components.append(size)
            continue
        count = read_input_number(role, "targetInstanceCount")
        default = {"headnode": HEAD_NODES, "zookeepernode": ZOOKEEPER_NODES}.get(label)
        count = default if count is None else count
        components.append(
            sized_component(label, f"hdinsight:{size.lower()}", count, context, "number of nodes")
        )
    return components


def price_kusto_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a cluster and the markup on each vCPU; development clusters have no markup."""
    name = text_or_unpriced(read_input_text(resource.inputs, "sku", "name"), "its size")
    if isinstance(name, UnpricedComponent):
        return [name]
    match = _CLUSTER_SIZE.match(name)
    if not match:
        return [UnpricedComponent(f"unknown size {name}", "machine")]
    is_development = name.lower().startswith("dev")
    capacity = read_input_number(resource.inputs, "sku", "capacity")
    count = group_size_range(
        (Decimal(1) if is_development else HEAD_NODES) if capacity is None else capacity,
        None,
        read_input_number(resource.inputs, "optimizedAutoscale", "maximum"),
    )
    components = _machine_components(resource, graph, MachineGroupInputs(match[1], count))
    if is_development or count is None:
        return components
    context = replace(standalone_part_context(resource, graph), count=count)
    return [*components, context.make_part_component("markup", "kusto:vcore_markup", Decimal(match[2]))]


def price_synapse_sql_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a dedicated SQL pool by its performance level, and its storage by use."""
    pool = SynapsePoolInputs(read_input_text(resource.inputs, "sku", "name"))
    sku = text_or_unpriced(pool.sku, "its performance level", "compute")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    match = _DWU.match(sku.lower())
    if not match:
        return [UnpricedComponent(f"unknown performance level {sku}", "compute")]
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    return [
        context.make_part_component("compute", "synapse:dwu_100", Decimal(match[1]) / DWU_STEP),
        context.make_usage_component("storage", "synapse:storage_tib", "storage_tb", usage, is_stored=True),
    ]


def price_spark_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what a Spark pool bills by use: vCore hours of its nodes while jobs run."""
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    item, key = "synapse:spark_vcore_hour", "monthly_spark_vcore_hours"
    return [context.make_usage_component("compute", item, key, usage)]


def price_model_deployment(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a model deployment: provisioned throughput by the hour, else tokens by use."""
    deployment = ModelDeploymentInputs(
        sku=read_input_text(resource.inputs, "sku", "name"),
        capacity=read_input_number(resource.inputs, "sku", "capacity"),
        model=read_input_text(resource.inputs, "properties", "model", "name"),
    )
    model = text_or_unpriced(deployment.model, "its model", "model")
    if isinstance(model, UnpricedComponent):
        return [model]
    if isinstance(deployment.sku, UnreadableValue):
        return [UnpricedComponent(f"its kind is {MARKER_REASONS[deployment.sku]}", "throughput")]
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    if isinstance(deployment.sku, str) and "provisioned" in deployment.sku.lower():
        item = f"openai:ptu:{deployment.sku.lower()}"
        return [sized_component("throughput", item, deployment.capacity, context, "number of units")]
    return [
        context.make_usage_component(
            name, f"openai:{model.lower()}:{name}_token", f"monthly_language_{name}_tokens", usage
        )
        for name in ("input", "output")
    ]


def _machine_components(
    resource: StateResource, graph: ResourceGraph, group: MachineGroupInputs, name: str = "machine"
) -> Components:
    size = text_or_unpriced(group.size, "machine size", name)
    if isinstance(size, UnpricedComponent):
        return [size]
    count = graph.resolve_group_size(resource, group.count)
    if count is None:
        return [UnpricedComponent("its number of machines is not known until deployment", name)]
    terms = graph.purchase_terms_of(resource, spot=group.is_spot)
    hours = terms.billed_hours_per_month
    region = find_region(resource, graph)
    return [CostComponent(name, (size,), "azure", region, count, terms=terms, hours_per_month=hours)]


def _ml_cluster(inputs: Any) -> Any:
    """Return the inputs of azure-native for a classic compute cluster or instance."""
    settings = {
        "vmSize": read_input(inputs, "vmSize"),
        "vmPriority": read_input(inputs, "vmPriority"),
        "scaleSettings": read_input(inputs, "scaleSettings"),
    }
    return {**inputs, "properties": {"computeType": "AmlCompute", "properties": settings}}


def _ml_instance(inputs: Any) -> Any:
    settings = {"vmSize": read_input(inputs, "virtualMachineSize")}
    return {**inputs, "properties": {"computeType": "ComputeInstance", "properties": settings}}


def _batch_pool(inputs: Any) -> Any:
    scale = {"fixedScale": read_input(inputs, "fixedScale"), "autoScale": read_input(inputs, "autoScale")}
    return {**inputs, "scaleSettings": scale}


def _hdinsight(inputs: Any) -> Any:
    """Return the inputs of azure-native for the classic clusters, whose roles have names of their own."""
    roles = [
        {
            "name": key.replace("Node", "node"),
            "hardwareProfile": {"vmSize": read_input(role, "vmSize")},
            "targetInstanceCount": read_input(role, "targetInstanceCount"),
        }
        for key in ("headNode", "workerNode", "zookeeperNode", "edgeNode")
        if (role := read_input(inputs, "roles", key)) is not None
    ]
    return {**inputs, "properties": {"computeProfile": {"roles": roles}}}


_CLASSIC_HDINSIGHT = with_inputs(price_hdinsight, _hdinsight)

PRICERS: dict[str, Pricer] = {
    "azure-native:batch:Pool": price_batch_pool,
    "azure-native:cognitiveservices:Deployment": price_model_deployment,
    "azure-native:hdinsight:Cluster": price_hdinsight,
    "azure-native:kusto:Cluster": price_kusto_cluster,
    "azure-native:machinelearningservices:Compute": price_ml_compute,
    "azure-native:machinelearningservices:OnlineDeployment": price_online_deployment,
    "azure-native:synapse:BigDataPool": price_spark_pool,
    "azure-native:synapse:SqlPool": price_synapse_sql_pool,
    "azure:batch/pool:Pool": with_inputs(price_batch_pool, _batch_pool),
    "azure:cognitive/deployment:Deployment": translated(
        price_model_deployment, {"model.name": "properties.model.name"}
    ),
    "azure:hdinsight/hBaseCluster:HBaseCluster": _CLASSIC_HDINSIGHT,
    "azure:hdinsight/hadoopCluster:HadoopCluster": _CLASSIC_HDINSIGHT,
    "azure:hdinsight/interactiveQueryCluster:InteractiveQueryCluster": _CLASSIC_HDINSIGHT,
    "azure:hdinsight/kafkaCluster:KafkaCluster": _CLASSIC_HDINSIGHT,
    "azure:hdinsight/sparkCluster:SparkCluster": _CLASSIC_HDINSIGHT,
    "azure:kusto/cluster:Cluster": translated(
        price_kusto_cluster, {"optimizedAutoScale.maximumInstances": "optimizedAutoscale.maximum"}
    ),
    "azure:machinelearning/computeCluster:ComputeCluster": with_inputs(price_ml_compute, _ml_cluster),
    "azure:machinelearning/computeInstance:ComputeInstance": with_inputs(price_ml_compute, _ml_instance),
    "azure:synapse/sparkPool:SparkPool": price_spark_pool,
    "azure:synapse/sqlPool:SqlPool": translated(price_synapse_sql_pool, {"skuName": "sku.name"}),
}

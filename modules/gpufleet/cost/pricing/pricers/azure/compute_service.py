"""Services that run machines: Machine Learning, Batch, HDInsight, Data Explorer, SQL pools and model deployments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

HDINSIGHT_NODES = {"headnode": 2, "zookeepernode": 3}  # that a cluster always has
CLASSIC_ROLES = ("headNode", "workerNode", "zookeeperNode", "edgeNode")
KUSTO_BOUNDS = ("sku.capacity", "optimizedAutoscale.maximum or optimizedAutoScale.maximumInstances")
DWU_STEP = Decimal(100)
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


@pricer("azure-native:machinelearningservices:Compute")
def price_ml_compute(compute: Reader) -> Parts:
    """Yield the machines of a compute cluster between its bounds, or of a compute instance."""
    with compute.of("machine") as machine:
        kind = machine.choice("properties.computeType", COMPUTE_TYPES, name="its kind")
        settings = machine.inside("properties.properties")
        if kind == "ComputeInstance":
            yield settings.machines(settings.text("vmSize", "machine size"), settings.group_size(default=1))
        elif kind == "AmlCompute":
            yield _make_cluster(settings)


@pricer("azure:machinelearning/computeCluster:ComputeCluster")
def price_classic_ml_cluster(cluster: Reader) -> Parts:
    """Yield the machines of a compute cluster between its bounds."""
    with cluster.of("machine") as machine:
        yield _make_cluster(machine)


@pricer("azure:machinelearning/computeInstance:ComputeInstance")
def price_classic_ml_instance(instance: Reader) -> Parts:
    """Yield the machine of a compute instance."""
    with instance.of("machine") as machine:
        size = machine.text("virtualMachineSize", "machine size")
        yield machine.machines(size, machine.group_size(default=1))


def _make_cluster(machine: Reader) -> CostComponent | None:
    count = machine.group_size("scaleSettings.minNodeCount", "scaleSettings.maxNodeCount", default=0)
    priority = machine.find_choice("vmPriority", ("Dedicated", "LowPriority"))
    is_spot = priority if isinstance(priority, UnreadableValue) else priority == "LowPriority"
    return machine.bought(spot=is_spot).machines(machine.text("vmSize", "machine size"), count)


@pricer("azure-native:machinelearningservices:OnlineDeployment")
def price_online_deployment(deployment: Reader) -> Parts:
    """Yield the machines of a deployment, which run around the clock."""
    with deployment.of("machine") as machine:
        size = machine.text("properties.instanceType", "machine size")
        yield machine.machines(size, machine.group_size("sku.capacity", default=1))


@pricer("azure-native:batch:Pool", "azure:batch/pool:Pool")
def price_batch_pool(pool: Reader) -> Parts:
    """Yield the machines of a pool of fixed size; the size of one with a formula is not declared."""
    for name, key, is_spot in (
        ("machine", "targetDedicatedNodes", False),
        ("machine:spot", "targetLowPriorityNodes", True),
    ):
        with pool.of(name) as machine:
            path = f"scaleSettings.fixedScale.{key} or fixedScale.{key}"
            if machine.has("scaleSettings.autoScale or autoScale"):
                raise pool.of("machine").refuse("its size follows a formula")
            if machine.find_number(path):
                size = machine.text("vmSize", "machine size")
                yield machine.bought(spot=is_spot).machines(size, machine.group_size(path))


@pricer(
    "azure-native:hdinsight:Cluster",
    "azure:hdinsight/hBaseCluster:HBaseCluster",
    "azure:hdinsight/hadoopCluster:HadoopCluster",
    "azure:hdinsight/interactiveQueryCluster:InteractiveQueryCluster",
    "azure:hdinsight/kafkaCluster:KafkaCluster",
    "azure:hdinsight/sparkCluster:SparkCluster",
)
def price_hdinsight(cluster: Reader) -> Parts:
    """Yield the nodes of a cluster by role; their prices include the machine."""
    for name, role in _list_roles(cluster):
        with role.of(name) as nodes:
            size = nodes.text("hardwareProfile.vmSize or vmSize", "node size").lower()
            count = nodes.number("targetInstanceCount", "its number of nodes", HDINSIGHT_NODES.get(name))
            yield nodes.part(f"hdinsight:{size}", count)


def _list_roles(cluster: Reader) -> Iterator[tuple[str, Reader]]:
    """Yield the roles: of azure-native they are a list, of the classic clusters inputs of their own."""
    for role in cluster.entries("properties.computeProfile.roles"):
        name = role.find_text("name")
        yield name if isinstance(name, str) else "nodes", role
    for key in CLASSIC_ROLES:
        if cluster.has(f"roles.{key}"):
            yield key.lower(), cluster.inside(f"roles.{key}")


@pricer("azure-native:kusto:Cluster", "azure:kusto/cluster:Cluster")
def price_kusto_cluster(cluster: Reader) -> Parts:
    """Yield the machines of a cluster and the markup on each vCPU; development clusters have no markup."""
    with cluster.of("machine") as machine:
        size, _ = _split_kusto_size(machine)
        yield machine.machines(size, machine.group_size(*KUSTO_BOUNDS, default=_default_kusto_size(machine)))
    with cluster.of("markup") as markup:
        _, vcpus = _split_kusto_size(markup)
        if not _is_development(markup):
            count = markup.group_size(*KUSTO_BOUNDS, default=_default_kusto_size(markup))
            yield markup.part("kusto:vcore_markup", count, vcpus)


def _split_kusto_size(cluster: Reader) -> tuple[str, Decimal]:
    """Return the machine of a cluster, and its vCPUs."""
    name = cluster.text("sku.name", "its size")
    match = _CLUSTER_SIZE.match(name)
    if not match:
        raise cluster.refuse(f"unknown size {name}")
    return match[1], Decimal(match[2])


def _is_development(cluster: Reader) -> bool:
    return cluster.text("sku.name", "its size").lower().startswith("dev")


def _default_kusto_size(cluster: Reader) -> int:
    return 1 if _is_development(cluster) else 2


@pricer("azure-native:synapse:SqlPool", "azure:synapse/sqlPool:SqlPool")
def price_synapse_sql_pool(pool: Reader) -> Parts:
    """Yield a dedicated SQL pool by its performance level, and its storage by use."""
    with pool.of("compute") as compute:
        sku = compute.text("sku.name or skuName", "its performance level")
        match = _DWU.match(sku.lower())
        if not match:
            raise compute.refuse(f"unknown performance level {sku}")
        yield compute.part("synapse:dwu_100", size=Decimal(match[1]) / DWU_STEP)
    yield pool.of("storage").used("synapse:storage_tib", "storage_tb", stored=True)


@pricer("azure-native:cognitiveservices:Deployment", "azure:cognitive/deployment:Deployment")
def price_model_deployment(deployment: Reader) -> Parts:
    """Yield a model deployment: provisioned throughput by the hour, else tokens by use."""
    throughput = deployment.of("throughput")
    with throughput:
        kind = throughput.text("sku.name", "its kind", "").lower()
        if "provisioned" in kind:
            units = throughput.number("sku.capacity", "its number of units")
            yield throughput.part(f"openai:ptu:{kind}", size=units)
    for name in ("input", "output"):
        with deployment.of(name) as tokens:
            if "provisioned" not in tokens.text("sku.name", "its kind", "").lower():
                model = tokens.text("properties.model.name or model.name", "its model").lower()
                yield tokens.used(f"openai:{model}:{name}_token", f"monthly_language_{name}_tokens")

"""Clusters of databases with shared storage: Aurora, DocumentDB and Neptune, and their instances."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.values import Text
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.rds import list_insights, rds_engine_name
from gpufleet.cost.pricing.pricers.aws.rds_support import COMPONENT, DISABLED, make_extended_support
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

SERVERLESS_CLASS = "db.serverless"
DEFAULT_ENGINES = {"docdb": "docdb", "neptune": "neptune"}  # by service; Aurora's must be declared
IO_OPTIMIZED = ("aurora-iopt1", "iopt1")
SERVERLESS_V1_CAPACITY = (1, 16)  # units: the provider's documentation of scalingConfiguration
MULTI_AZ_INSTANCES = 3  # a Multi-AZ DB cluster has a writer and two readable standbys
ACU_KEY = "capacity_units_per_hr"
CAPACITY = (
    "serverlessv2ScalingConfiguration.{0} or serverlessV2ScalingConfiguration.{0}"  # the services differ
)


@pricer("aws:rds/cluster:Cluster")
def price_aurora_cluster(cluster: Reader) -> Parts:
    """Yield the storage and I/O of an Aurora cluster, or a Multi-AZ DB cluster with its three instances."""
    engine = cluster.find_text("engine")
    if isinstance(engine, str) and not engine.startswith("aurora"):
        yield from _list_multi_az_cluster(cluster, engine)
        return
    with cluster.of("capacity") as capacity:
        if capacity.text("engineMode", "its mode", "") == "serverless":
            low = capacity.number(
                "scalingConfiguration.minCapacity", "its capacity", SERVERLESS_V1_CAPACITY[0]
            )
            high = capacity.number(
                "scalingConfiguration.maxCapacity", "its capacity", SERVERLESS_V1_CAPACITY[1]
            )
            yield capacity.part("aurora:serverless_v1:acu", _find_capacity(capacity, low, high))
    yield from _list_shared_storage(cluster, "aurora")


@pricer("aws:docdb/cluster:Cluster")
def price_documentdb_cluster(cluster: Reader) -> Parts:
    """Yield the storage and I/O of a DocumentDB cluster."""
    return _list_shared_storage(cluster, "docdb")


@pricer("aws:neptune/cluster:Cluster")
def price_neptune_cluster(cluster: Reader) -> Parts:
    """Yield the storage and I/O of a Neptune cluster."""
    return _list_shared_storage(cluster, "neptune")


@pricer("aws:rds/clusterInstance:ClusterInstance")
def price_aurora_instance(instance: Reader) -> Parts:
    """Yield an instance of an Aurora cluster."""
    return _list_instance(instance, "aws:rds/cluster:Cluster", "aurora")


@pricer("aws:docdb/clusterInstance:ClusterInstance")
def price_documentdb_instance(instance: Reader) -> Parts:
    """Yield an instance of a DocumentDB cluster."""
    return _list_instance(instance, "aws:docdb/cluster:Cluster", "docdb")


@pricer("aws:neptune/clusterInstance:ClusterInstance")
def price_neptune_instance(instance: Reader) -> Parts:
    """Yield an instance of a Neptune cluster."""
    return _list_instance(instance, "aws:neptune/cluster:Cluster", "neptune")


def _list_instance(instance: Reader, cluster_type: str, service: str) -> Parts:
    owner = instance.find_resource("clusterIdentifier", cluster_type)
    cluster = replace(instance, inputs=owner.inputs if owner else {})
    yield from list_insights(replace(instance, inputs={**cluster.inputs, **instance.inputs}))
    if instance.find_text("instanceClass") == SERVERLESS_CLASS:
        with cluster.of("capacity") as capacity:
            low = capacity.number(CAPACITY.format("minCapacity"), "the cluster's least capacity")
            high = capacity.find_number(CAPACITY.format("maxCapacity"))
            units = _find_capacity(capacity, low, high if isinstance(high, Decimal) else low)
            yield capacity.part(f"{service}:serverless_v2:acu{_find_suffix(capacity)}", units)
        return
    with instance.of("instance") as part:
        kind = part.text("instanceClass", "instance class")
        engine = _find_engine(part, cluster, service)
        prefix = f"rds:{rds_engine_name(engine, None)}" if service == "aurora" else service
        yield part.instances(f"{prefix}:{kind}{_find_suffix(cluster.of(part.component))}")
    with instance.of(COMPONENT) as support:
        if cluster.find_text("engineLifecycleSupport") != DISABLED:
            engine = rds_engine_name(_find_engine(support, cluster, service), None)
            version = _find_version(support, cluster, has_cluster=owner is not None)
            yield make_extended_support(support, engine, version, "instanceClass")


def _find_engine(instance: Reader, cluster: Reader, service: str) -> str:
    names = (instance.find_text("engine"), cluster.find_text("engine"), DEFAULT_ENGINES.get(service))
    return instance.known(next((name for name in names if isinstance(name, str)), None), "engine")


def _find_version(instance: Reader, cluster: Reader, *, has_cluster: bool) -> Text:
    """Return the version; a cluster that is not known has it."""
    version = instance.find_text("engineVersion") or cluster.find_text("engineVersion")
    owner = instance.find_text("clusterIdentifier")
    is_hidden = version is None and not has_cluster and isinstance(owner, UnreadableValue)
    return owner if is_hidden else version


def _find_capacity(cluster: Reader, low: Decimal, high: Decimal) -> Range:
    """Return the capacity of serverless instances between its bounds; idle, they have the least."""
    used = cluster.usage.amounts.get(ACU_KEY)
    expected = low if used is None else min(max(used, low), max(low, high))
    return Range.spanning(low, expected, max(low, high))


def _find_suffix(cluster: Reader) -> str:
    """Return what the items end with if the prices of instances and storage include their I/O."""
    return ":io_optimized" if cluster.text("storageType", "storage type", "") in IO_OPTIMIZED else ""


def _list_shared_storage(cluster: Reader, service: str) -> Parts:
    with cluster.of("storage") as storage:
        yield storage.used(f"{service}:storage{_find_suffix(storage)}", "storage_gb", stored=True)
    with cluster.of("io") as requests:
        if not _find_suffix(requests):
            yield requests.used(f"{service}:io_request", "monthly_io_requests")
    yield cluster.of("backup").used(f"{service}:backup", "backup_storage_gb", stored=True, listed=False)


def _list_multi_az_cluster(cluster: Reader, engine: str) -> Parts:
    """Yield three instances and the storage of each."""
    with cluster.of("instance") as instance:
        kind = instance.text("dbClusterInstanceClass", "instance class")
        yield instance.instances(f"rds:cluster:{rds_engine_name(engine, None)}:{kind}", MULTI_AZ_INSTANCES)
    for unit, path in (("", "allocatedStorage"), (":iops", "iops")):
        with cluster.of(f"storage{unit}") as storage:
            if amount := storage.number(path, storage.component, 0):
                volume = storage.text("storageType", "storage type", "io1")
                yield storage.kept(f"rds:cluster:storage:{volume}{unit}", amount)

"""Databases that bill by capacity: Spanner, Bigtable and instances of AlloyDB, with what they store by use."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.values import Number
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.region import gcp_region_of_zone

ALLOYDB_CLUSTER = "gcp:alloydb/cluster:Cluster"
UNITS_PER_NODE = Decimal(1000)  # Spanner's processing units (cloud.google.com/spanner/pricing)
GIB_PER_ALLOYDB_VCPU = Decimal(8)  # cloud.google.com/alloydb/docs/choose-machine-type, read 2026-11-23
REGIONAL_CONFIG = "regional-"
SPANNER_LIMITS = "autoscalingConfig.autoscalingLimits"
ALLOYDB_TYPES, AVAILABILITIES = ("PRIMARY", "READ_POOL", "SECONDARY"), ("REGIONAL", "ZONAL")


@pricer("gcp:spanner/instance:Instance")
def price_spanner_instance(instance: Reader) -> Parts:
    """Yield an instance's nodes and what it stores, in its configuration, which is a region or several regions."""
    if instance.find_text("instanceType") == "FREE_INSTANCE":
        return
    config = instance.of("nodes").text("config", "its configuration")
    place = instance.within(last_url_segment(config).removeprefix(REGIONAL_CONFIG).lower())
    with place.of("nodes") as nodes:
        edition = nodes.text("edition", "its edition", "standard").lower()
        yield nodes.part(f"spanner:{edition}:node", _count_spanner_nodes(nodes))
    yield place.of("storage").used("spanner:storage", "storage_gb", stored=True)
    yield place.of("backups").used("spanner:backup", "backup_storage_gb", stored=True)


def _count_spanner_nodes(instance: Reader) -> Range:
    if instance.has(SPANNER_LIMITS):
        low, high = (
            _find_nodes(
                instance, f"{SPANNER_LIMITS}.{bound}Nodes", f"{SPANNER_LIMITS}.{bound}ProcessingUnits"
            )
            for bound in ("min", "max")
        )
        declared = group_size_range(low, None, high)
    else:
        size = _find_nodes(instance, "numNodes", "processingUnits")
        declared = group_size_range(
            Decimal(1) if size is None else size, None, None
        )  # the provider's default
    return instance.resize(declared, "its number of nodes")


def _find_nodes(instance: Reader, nodes: str, units: str) -> Number:
    """Return a size in nodes, given in nodes or in processing units."""
    processing_units = instance.find_number(units)
    if isinstance(processing_units, Decimal):
        return processing_units / UNITS_PER_NODE
    return processing_units or instance.find_number(nodes)


@pricer("gcp:bigtable/instance:Instance")
def price_bigtable_instance(instance: Reader) -> Parts:
    """Yield the nodes of each cluster and what it stores, in its zone's region."""
    clusters = instance.of("nodes").entries("clusters", "the list of its clusters")
    for index, cluster in enumerate(clusters):
        suffix = "" if len(clusters) == 1 else f":{index}"
        with cluster.of(f"nodes{suffix}") as nodes:
            yield nodes.within(_find_region(nodes)).part("bigtable:node", _count_bigtable_nodes(nodes))
        with cluster.of(f"storage{suffix}") as storage:
            kind = storage.choice("storageType", ("SSD", "HDD"), "SSD", "its storage type").lower()
            place = storage.within(_find_region(storage))
            yield place.used(f"bigtable:{kind}", "storage_gb", stored=True)


def _find_region(cluster: Reader) -> str:
    zone = cluster.text("zone", "its zone", "")
    return gcp_region_of_zone(zone).lower() if zone else cluster.region


def _count_bigtable_nodes(cluster: Reader) -> Range:
    if cluster.has("autoscalingConfig"):
        low, high = (cluster.find_number(f"autoscalingConfig.{bound}Nodes") for bound in ("min", "max"))
        return cluster.known(group_size_range(low, None, high), "its number of nodes")
    return Range.from_exact_value(cluster.number("numNodes", "its number of nodes", 1))


@pricer("gcp:alloydb/instance:Instance")
def price_alloydb_instance(instance: Reader) -> Parts:
    """Yield an instance's vCPUs and memory, in its cluster's region; a regional primary has a standby."""
    cluster = instance.find_resource("cluster", ALLOYDB_CLUSTER)
    location = (instance.reading(cluster) if cluster else instance).find_text("location")
    place = instance.within(location.lower()) if isinstance(location, str) else instance
    for name, item, gib_or_vcpu in (
        ("vcpus", "vcpu", Decimal(1)),
        ("memory", "memory", GIB_PER_ALLOYDB_VCPU),
    ):
        with place.of(name) as part:
            size = part.number("machineConfig.cpuCount", "its number of vCPUs") * gib_or_vcpu
            yield part.part(f"alloydb:{item}", _count_alloydb_nodes(part), size)


def _count_alloydb_nodes(instance: Reader) -> Decimal:
    if instance.choice("instanceType", ALLOYDB_TYPES, "PRIMARY", "its type") == "READ_POOL":
        return instance.number("readPoolConfig.nodeCount", "its number of nodes", 1)
    is_zonal = instance.choice("availabilityType", AVAILABILITIES, "REGIONAL", "its availability") == "ZONAL"
    return Decimal(1 if is_zonal else 2)

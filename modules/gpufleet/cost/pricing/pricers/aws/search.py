"""OpenSearch and Elasticsearch domains: data, master and warm nodes, and the volumes of the data nodes."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

DEFAULT_NODE_TYPE = "m4.large.search"  # the provider's documentation of clusterConfig.instanceType
DEFAULT_VOLUME_TYPE = "gp2"
GP3_INCLUDED = {"iops": Decimal(3000), "throughput": Decimal(125)}
TYPES_WITH_SPEED = ("gp3", "io1")
GP3_LARGE_GIB = Decimal(1024)  # OpenSearch includes more speed in larger gp3 volumes than in these
COUNT = ("clusterConfig.instanceCount", "the number of nodes", 1)


@pricer("aws:elasticsearch/domain:Domain", "aws:opensearch/domain:Domain")
def price_search_domain(domain: Reader) -> Parts:
    """Yield the nodes of a domain and their volumes."""
    with domain.of("node") as node:
        kind = node.text("clusterConfig.instanceType", "node type", DEFAULT_NODE_TYPE)
        yield _make_nodes(node, kind, node.number(*COUNT))
    for role, flag, prefix in (
        ("master", "dedicatedMasterEnabled", "dedicatedMaster"),
        ("warm", "warmEnabled", "warm"),
    ):
        with domain.of(role) as nodes:
            if nodes.flag(f"clusterConfig.{flag}", f"whether it has {role} nodes"):
                kind = nodes.text(f"clusterConfig.{prefix}Type", f"{role} type")
                count = nodes.number(f"clusterConfig.{prefix}Count", f"the number of {role}s")
                yield _make_nodes(nodes, kind, count)
    with domain.of("storage") as storage:
        if _has_volumes(storage):
            yield storage.kept(_find_volume_item(storage), storage.number(*COUNT), _find_gib(storage))
    for unit in ("iops", "throughput"):
        with domain.of(f"storage:{unit}") as speed:
            if _has_volumes(speed) and (
                amount := speed.number(f"ebsOptions.{unit}", f"provisioned {unit}", 0)
            ):
                yield _make_speed(speed, unit, amount)


def _make_nodes(nodes: Reader, kind: str, count: Decimal) -> CostComponent | None:
    return nodes.instances(f"opensearch:{kind.replace('.elasticsearch', '.search')}", count)


def _make_speed(speed: Reader, unit: str, amount: Decimal) -> CostComponent | None:
    """Return the speed that is bought in addition to what a volume includes."""
    kind = _find_volume_type(speed)
    billed = max(amount - (GP3_INCLUDED[unit] if kind == "gp3" else 0), Decimal(0))
    if kind not in TYPES_WITH_SPEED or not billed:
        return None
    if kind == "gp3" and _find_gib(speed) > GP3_LARGE_GIB:
        included = f"{unit} that OpenSearch includes in a gp3 volume above {GP3_LARGE_GIB} GiB"
        raise speed.refuse(f"{included} depend on its size")
    return speed.kept(f"{_find_volume_item(speed)}:{unit}", speed.number(*COUNT), billed)


def _has_volumes(domain: Reader) -> bool:
    return domain.flag("ebsOptions.ebsEnabled", "whether its nodes have volumes")


def _find_gib(domain: Reader) -> Decimal:
    return domain.number("ebsOptions.volumeSize", "volume size")


def _find_volume_type(domain: Reader) -> str:
    return domain.text("ebsOptions.volumeType", "volume type", DEFAULT_VOLUME_TYPE)


def _find_volume_item(domain: Reader) -> str:
    return f"opensearch:storage:{_find_volume_type(domain)}"

"""Redshift warehouses: nodes, and what the newer nodes store."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

MANAGED_STORAGE = ("ra3.", "rg.")  # nodes of these families bill what they store apart


@pricer("aws:redshift/cluster:Cluster")
def price_redshift_cluster(cluster: Reader) -> Parts:
    """Yield the nodes of a cluster (in two zones it has them twice), its storage, and what it scans outside."""
    with cluster.of("node") as node:
        count = node.copies("multiAz") * node.number("numberOfNodes", "the number of nodes", 1)
        yield node.instances(f"redshift:{node.text('nodeType', 'node type')}", count)
    with cluster.of("storage") as storage:
        if storage.text("nodeType", "node type").startswith(MANAGED_STORAGE):
            yield storage.used("redshift:managed_storage", "managed_storage_gb", stored=True)
    yield cluster.of("spectrum").used("redshift:spectrum_tb", "spectrum_data_scanned_tb", listed=False)

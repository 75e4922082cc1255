"""External addresses of GKE nodes: one for each node that is not private, in spot pools at half the price."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.engine import StateResource, UnreadableValue

CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
PUBLIC, SPOT = Decimal("3.65"), Decimal("1.825")  # 0.005 and 0.0025 USD x 730 h
HIDDEN = UnreadableValue.UNKNOWN
PLACE = {"location": "us-central1-a"}


def make_resource(type_, name, inputs, **fields):
    return StateResource(f"urn:pulumi:prod::p::{type_}::{name}", type_, name, inputs, {}, **fields)


def price_pool(cluster, pool, node_config=None):
    """Return what the addresses of one node cost, and the reasons if they have no price."""
    config = {"machineType": "e2-medium", **(node_config or {})}
    inputs = {**PLACE, "cluster": "c", "nodeCount": 1, "nodeConfig": config, **pool}
    resources = [make_resource(POOL, "p", inputs)]
    if cluster is not None:
        base = {"name": "c", "removeDefaultNodePool": True}
        resources.append(make_resource(CLUSTER, "c", {**base, **PLACE, **cluster}))
    bill = cost.price_resources(resources)
    charges = [each for each in bill.charges if each.component.endswith("public_ipv4")]
    reasons = [each.reason for each in bill.unpriced_resources if each.component == "public_ipv4"]
    return sum((each.usd_per_month.expected for each in charges), Decimal(0)), reasons


def private(value, block):
    return {block: {"enablePrivateNodes": value}}


CLUSTER_BLOCK, POOL_BLOCK = "privateClusterConfig", "networkConfig"


@pytest.mark.parametrize(
    ("cluster", "pool", "node_config", "usd"),
    [
        ({}, {}, {}, PUBLIC),
        ({}, {}, {"spot": True}, SPOT),
        ({}, {}, {"preemptible": True}, SPOT),
        ({}, {}, {"flexStart": True}, PUBLIC),
        (private(True, CLUSTER_BLOCK), {}, {}, Decimal(0)),
        (private(False, CLUSTER_BLOCK), {}, {}, PUBLIC),
        (private(True, CLUSTER_BLOCK), private(False, POOL_BLOCK), {}, PUBLIC),
        ({}, private(True, POOL_BLOCK), {}, Decimal(0)),
        (private(HIDDEN, CLUSTER_BLOCK), private(True, POOL_BLOCK), {}, Decimal(0)),
        (None, private(False, POOL_BLOCK), {}, PUBLIC),
    ],
)
def test_pool_decides_before_its_cluster(cluster, pool, node_config, usd):
    assert price_pool(cluster, pool, node_config) == (usd, [])


@pytest.mark.parametrize(
    ("cluster", "pool", "reason"),
    [
        (None, {}, "its cluster decides whether nodes have external addresses, and is not in this stack"),
        (
            private(HIDDEN, CLUSTER_BLOCK),
            {},
            "whether nodes have external addresses is not known until deployment",
        ),
        ({CLUSTER_BLOCK: HIDDEN}, {}, "whether nodes have external addresses is not known until deployment"),
        ({}, {POOL_BLOCK: HIDDEN}, "whether nodes have external addresses is not known until deployment"),
    ],
)
def test_unknown_privacy_is_listed(cluster, pool, reason):
    assert price_pool(cluster, pool) == (Decimal(0), [reason])


def test_pools_inside_a_cluster_and_the_default_pool_have_addresses():
    config = {"machineType": "e2-medium"}
    inside = {"nodePools": [{"name": "a", "nodeCount": 2, "nodeConfig": config}]}
    default = {"initialNodeCount": 3, "nodeConfig": config}
    for inputs, count in ((inside, 2), (default, 3)):
        for is_private in (False, True):
            declared = {**PLACE, **inputs, **private(is_private, CLUSTER_BLOCK)}
            bill = cost.price_resources([make_resource(CLUSTER, "c", declared)])
            usd = [each.usd_per_month.expected for each in bill.charges if "public_ipv4" in each.component]
            assert usd == ([] if is_private else [count * PUBLIC])

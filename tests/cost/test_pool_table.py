"""Charges summed by pool, the most expensive pool first."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.analysis.pool import group_charges_by_pool
from gpufleet.engine import StateResource

INSTANCE = "aws:ec2/instance:Instance"


def instance(name, pool, machine):
    tags = {"gpufleet-pool": pool}
    inputs = {"instanceType": machine, "region": "us-east-1", "tags": tags}
    return StateResource(f"urn:pulumi:s::p::{INSTANCE}::{name}", INSTANCE, name, inputs, {})


def test_charges_of_a_pool_are_summed(book: PriceBook):
    fleet = [
        instance("serve-0", "serve", "g5.xlarge"),
        instance("train-0", "train", "g5.2xlarge"),
        instance("train-1", "train", "g5.2xlarge"),
    ]
    machines = [
        pool for pool in group_charges_by_pool(price_resources(fleet, book)) if pool.component == "machine"
    ]
    assert [(pool.name, pool.machine, pool.count.expected) for pool in machines] == [
        ("train", "g5.2xlarge", 2),
        ("serve", "g5.xlarge", 1),
    ]
    assert [pool.usd_per_hour.expected for pool in machines] == [Decimal("2.424"), Decimal("1.006")]

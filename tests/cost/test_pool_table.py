"""Charges summed by pool, the most expensive pool first."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost import CostEstimate, PriceBook, diff, price_resources
from gpufleet.cost.analysis.pool import group_charges_by_pool
from gpufleet.cost.analysis.reports.table import render_diff_table, render_estimate_table
from gpufleet.engine import StateResource

INSTANCE = "aws:ec2/instance:Instance"


def instance(name, pool, machine):
    tags = {"gpufleet-pool": pool}
    inputs = {"instanceType": machine, "region": "us-east-1", "tags": tags}
    return StateResource(f"urn:pulumi:s::p::{INSTANCE}::{name}", INSTANCE, name, inputs, {})


def test_rack_is_counted_in_nodes(book: PriceBook):
    kind = "gpufleet:onprem:Rack"
    inputs = {"name": "r", "machine": "DGX H100, lab server", "nodes": 3, "usd_per_hour": 15}
    racks = [StateResource(f"urn:pulumi:s::p::{kind}::r", kind, "r", inputs, {})]
    table = render_estimate_table(CostEstimate("s", price_resources(racks, book), None, ()))
    assert [line.split()[:9] for line in table.splitlines() if line.startswith("r ")] == [
        ["r", "DGX", "H100,", "lab", "server", "onprem", "owned", "3", "nodes"]
    ]
    assert "3 nodes, DGX H100, lab server" in render_diff_table(diff([], racks, book=book))


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

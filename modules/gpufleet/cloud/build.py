"""Declare the resources of a fleet: racks and workstations, then the pools cloud by cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

from gpufleet.cloud.onprem import Rack, RackArgs, Workstation, WorkstationArgs
from gpufleet.cloud.plan import PoolPlan
from gpufleet.fleet import Fleet

Facts = pulumi.Output[list[dict[str, Any]]]
Builder = Callable[[Fleet, Sequence[PoolPlan]], list[Facts]]


def build(fleet: Fleet) -> None:
    """Declare every resource of the fleet and export the stack output ``nodes``."""
    for rack in fleet.racks:
        Rack(rack.name, RackArgs.from_rack(rack))
    for station in fleet.workstations:
        Workstation(station.name, WorkstationArgs.from_spec(station))
    facts: list[Facts] = []
    for cloud, builder in _BUILDERS.items():
        plans = [PoolPlan(fleet, pool) for pool in fleet.pools if pool.cloud == cloud]
        if plans:
            facts += builder(fleet, plans)
    pulumi.export(
        "nodes", pulumi.Output.all(*facts).apply(lambda parts: [node for part in parts for node in part])
    )


def _aws(fleet: Fleet, plans: Sequence[PoolPlan]) -> list[Facts]:
    from gpufleet.cloud.aws_network import AwsNetwork, AwsNetworkArgs
    from gpufleet.cloud.aws_pool import AwsPool, AwsPoolArgs

    regions = sorted({plan.pool.region for plan in plans})
    networks = {region: AwsNetwork(f"aws-{region}", AwsNetworkArgs(fleet, region)) for region in regions}
    return [AwsPool(plan.pool.name, AwsPoolArgs(plan, networks[plan.pool.region])).nodes for plan in plans]


def _gcp(fleet: Fleet, plans: Sequence[PoolPlan]) -> list[Facts]:
    from gpufleet.cloud.gcp_network import GcpNetwork, GcpNetworkArgs
    from gpufleet.cloud.gcp_pool import GcpPool, GcpPoolArgs

    regions = sorted({plan.pool.region for plan in plans})
    network = GcpNetwork("gcp", GcpNetworkArgs(fleet, tuple(regions)))
    return [GcpPool(plan.pool.name, GcpPoolArgs(plan, network)).nodes for plan in plans]


def _azure(fleet: Fleet, plans: Sequence[PoolPlan]) -> list[Facts]:
    from gpufleet.cloud.azure_network import AzureNetwork, AzureNetworkArgs
    from gpufleet.cloud.azure_pool import AzurePool, AzurePoolArgs

    regions = sorted({plan.pool.region for plan in plans})
    networks = {
        region: AzureNetwork(f"azure-{region}", AzureNetworkArgs(fleet, region)) for region in regions
    }
    return [
        AzurePool(plan.pool.name, AzurePoolArgs(plan, networks[plan.pool.region])).nodes for plan in plans
    ]


_BUILDERS: dict[str, Builder] = {"aws": _aws, "gcp": _gcp, "azure": _azure}

"""A pool on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.aws_group import AwsAutoScalingGroups
from gpufleet.cloud.aws_instance import AwsInstances
from gpufleet.cloud.aws_network import AwsNetwork, AwsNetworkArgs
from gpufleet.cloud.aws_parts import AwsPoolParts
from gpufleet.cloud.aws_security import declare_security_group
from gpufleet.cloud.images import build_aws_image_query
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import AwsAccount, Fleet

MAX_SPOT_ZONES = (
    4  # more add little capacity, and a private pool's gateways would use up the account's five addresses
)


@dataclass(frozen=True)
class AwsPoolArgs:
    plan: PoolPlan
    network: AwsNetwork


class AwsPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; Auto Scaling groups for spot, an elastic count or a ladder."""

    def __init__(self, name: str, args: AwsPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool; ``nodes`` are the facts of single nodes, ``groups`` those of groups."""
        super().__init__("gpufleet:cloud:AwsPool", name, args.plan.build_component_inputs(), opts)
        self.parts = self._declare_parts(args.plan, args.network)
        groups, nodes = (
            (AwsAutoScalingGroups(self.parts).facts, [])
            if needs_groups(args.plan)
            else ([], AwsInstances(self.parts).nodes)
        )
        self.nodes: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input(nodes)
        self.groups: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input(groups)
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

    def _declare_parts(self, plan: PoolPlan, network: AwsNetwork) -> AwsPoolParts:
        image = aws.ec2.get_ami_output(
            **build_aws_image_query(plan.pool, plan.machine, plan.facts),
            most_recent=True,
            region=plan.pool.region,
            opts=pulumi.InvokeOptions(parent=self),
        )
        security_group = declare_security_group(plan, network, pulumi.ResourceOptions(parent=self))
        placement_group = self._declare_placement_group(plan) if _needs_placement_group(plan) else None
        zones = _choose_zones(plan, network)
        return AwsPoolParts(self, plan, network, zones, image, security_group, placement_group)

    def _declare_placement_group(self, plan: PoolPlan) -> Any:
        return aws.ec2.PlacementGroup(
            plan.pool.name,
            name=plan.node_name_prefix,
            strategy="cluster",
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=pulumi.ResourceOptions(parent=self),
        )


def declare_pools(
    fleet: Fleet, plans: Sequence[PoolPlan], opts: pulumi.ResourceOptions | None = None, prefix: str = ""
) -> list[AwsPool]:
    """Declare one network per region, then the pools. ``opts`` are those of each, ``prefix`` begins its name."""
    regions = sorted({plan.pool.region for plan in plans})
    options = {region: _add_provider(opts, f"{prefix}aws-{region}", region, fleet.aws) for region in regions}
    networks = {
        region: AwsNetwork(f"{prefix}aws-{region}", AwsNetworkArgs(fleet, region), own)
        for region, own in options.items()
    }
    return [
        AwsPool(plan.pool.name, AwsPoolArgs(plan, networks[region]), options[region])
        for plan in plans
        if (region := plan.pool.region)
    ]


def _add_provider(
    opts: pulumi.ResourceOptions | None, name: str, region: str, account: AwsAccount | None
) -> pulumi.ResourceOptions | None:
    """Return the options with a provider for an account, if the spec names one.

    One for each region: a provider whose region changes may replace all that it made (pulumi-terraform-bridge,
    ForcesProviderReplace), so a region must not depend on which other pools there are.
    """
    if account is None:
        return opts
    allowed, role = account.allowed_account_id, account.role_arn
    own = aws.Provider(
        name,
        region=region,
        profile=account.profile,
        # Not a dictionary: a provider's settings are JSON, in which its key stays role_arn (pulumi #18810).
        assume_roles=[aws.ProviderAssumeRoleArgs(role_arn=role)] if role else None,
        allowed_account_ids=[allowed] if allowed else None,
        opts=opts,
    )
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(provider=own))


def needs_groups(plan: PoolPlan) -> bool:
    """Return whether Auto Scaling groups own the nodes.

    Spot always does: AWS then replaces each node that it took back, and a destroyed group leaves no spot request
    behind that could start a node that nobody owns (hashicorp/terraform-provider-aws #38142).
    """
    return plan.needs_instance_group or any(rung.kind == "spot" for rung in plan.rungs)


def _needs_placement_group(plan: PoolPlan) -> bool:
    """Return whether the fabric needs the pool's nodes close to each other.

    A single node with EFA gets a group too: it could not join later, and a pool that grows would lose it. A pool
    on capacity that exists already gets none: that capacity is elsewhere, most of it out of the group's reach,
    and a Capacity Block cannot be in one.
    """
    is_capacity_elsewhere = any(
        rung.kind == "capacity_block" or rung.reservation not in (None, "create") for rung in plan.rungs
    )
    return plan.fabric == "efa" and not is_capacity_elsewhere


def _choose_zones(plan: PoolPlan, network: AwsNetwork) -> tuple[str, ...]:
    """Return the spec's zones; without any, the first one that offers the machine, and more for spot groups."""
    if plan.pool.zones:
        return plan.pool.zones
    zones = network.list_zones_offering(plan.pool.machine)
    wants_several = plan.fabric is None and any(rung.kind == "spot" for rung in plan.rungs)
    return zones[:MAX_SPOT_ZONES] if wants_several else zones[:1]

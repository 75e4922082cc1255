"""The firewall of an AWS pool: its security group and rules."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.pool_plan import PoolPlan

_ANY_ADDRESS = {"ipv4": "0.0.0.0/0", "ipv6": "::/0"}


def declare_security_group(plan: PoolPlan, network: Any, opts: pulumi.ResourceOptions) -> Any:
    """Declare the pool's group: SSH from the spec's networks, all egress, and traffic between its nodes."""
    name, region, tags = plan.pool.name, plan.pool.region, plan.build_tags()
    group = aws.ec2.SecurityGroup(
        name,
        description=f"gpufleet pool {name}",
        vpc_id=network.vpc.id,
        region=region,
        tags=tags,
        opts=opts,
    )
    for number, block in enumerate(plan.fleet.ssh.allowed_cidrs):
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-ssh-{number}",
            security_group_id=group.id,
            description="SSH from a network of the spec",
            ip_protocol="tcp",
            from_port=22,
            to_port=22,
            **{f"cidr_ipv{block.version}": str(block)},
            region=region,
            tags=tags,
            opts=opts,
        )
    _declare_egress(plan, group, opts)
    if plan.has_several_nodes or plan.fabric:
        _declare_internal_rules(plan, group, opts)
    return group


def _declare_egress(plan: PoolPlan, group: Any, opts: pulumi.ResourceOptions) -> None:
    for version, block in _ANY_ADDRESS.items():
        aws.vpc.SecurityGroupEgressRule(
            f"{plan.pool.name}-out-{version}",
            security_group_id=group.id,
            description="Packages, images, drivers",
            ip_protocol="-1",
            **{f"cidr_{version}": block},
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=opts,
        )


def _declare_internal_rules(plan: PoolPlan, group: Any, opts: pulumi.ResourceOptions) -> None:
    """Let the nodes reach each other. EFA needs rules that name the group in both directions, not an address range."""
    for name, rule in (("in", aws.vpc.SecurityGroupIngressRule), ("out", aws.vpc.SecurityGroupEgressRule)):
        rule(
            f"{plan.pool.name}-among-{name}",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="The pool's nodes among each other",
            ip_protocol="-1",
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=opts,
        )

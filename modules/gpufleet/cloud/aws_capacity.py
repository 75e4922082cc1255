"""Reserved capacity of an AWS pool: On-Demand Capacity Reservations and Capacity Blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi_aws as aws

from gpufleet.cloud.aws_parts import AwsPoolParts
from gpufleet.fleet import Rung

PLATFORM = "Linux/UNIX"
CAPACITY_BLOCK = "capacity-block"  # market type of instances in a Capacity Block


def describe_capacity(rung: Rung, *place: str) -> str:
    """Return what a node's capacity is and where: if that changes, the node must be a new one.

    The provider sees no difference between a spot and an on-demand instance that exists (hashicorp/
    terraform-provider-aws #38141), and AWS moves no running instance to another reservation. A commitment is only a
    bill.
    """
    kind = "on_demand" if rung.kind == "committed" else rung.kind
    return " ".join(filter(None, (kind, rung.offering or rung.reservation, *place)))


@dataclass(frozen=True)
class AwsCapacity:
    """The reservation that a rung's nodes run in, by its id. ``end`` is that of a block which this stack buys."""

    reservation: Any
    end: Any = None


def get_or_declare_capacity(parts: AwsPoolParts, rung: Rung) -> AwsCapacity:
    """Return the capacity that a rung's nodes run in; without a reservation, its id is None."""
    if rung.offering is not None:
        block = _declare_capacity_block(parts, rung.offering)
        return AwsCapacity(block.id, block.end_date)
    if rung.reservation == "create":
        return AwsCapacity(_declare_reservation(parts).id if parts.plan.pool.count.max else None)
    return AwsCapacity(rung.reservation)


def _declare_reservation(parts: AwsPoolParts) -> Any:
    plan, pool = parts.plan, parts.plan.pool
    return aws.ec2.CapacityReservation(
        pool.name,
        instance_type=pool.machine,
        instance_platform=PLATFORM,
        availability_zone=parts.zones[0],
        instance_count=pool.count.max,
        # Only instances that name it may use it: another team's cannot take it by accident.
        instance_match_criteria="targeted",
        end_date_type="unlimited",
        # Capacity inside a placement group must be reserved inside the same one.
        placement_group_arn=parts.placement_group.arn if parts.placement_group else None,
        region=pool.region,
        tags={**plan.build_tags(), "Name": plan.node_name_prefix},
        opts=parts.child_options(),
    )


def _declare_capacity_block(parts: AwsPoolParts, offering: str) -> Any:
    """Buy a Capacity Block. It is paid at once and cannot be returned.

    Offerings live for minutes, so the purchased one is pinned: no later change of the spec buys again, and no
    destroy takes the block out of the state without ``pulumi state unprotect``.
    """
    return aws.ec2.CapacityBlockReservation(
        parts.plan.pool.name,
        capacity_block_offering_id=offering,
        instance_platform=PLATFORM,
        region=parts.plan.pool.region,
        tags=parts.plan.build_tags(),
        opts=parts.child_options(
            protect=True, ignore_changes=["capacityBlockOfferingId", "instancePlatform"]
        ),
    )

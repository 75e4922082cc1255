"""The end of a Capacity Block: its group must be empty before AWS terminates what still runs.

EC2 Auto Scaling User Guide, "Use Capacity Blocks for machine learning workloads": scale in to zero more than 30 minutes
before the end, by scheduled scaling; EC2 terminates every instance that runs at that point, and a group that still
wants nodes would keep trying to launch. EventBridge warns 40 minutes before the end (EC2, "Monitor Capacity Blocks").
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.aws_parts import AwsPoolParts

SCALE_IN_BEFORE_END = timedelta(minutes=40)  # with AWS's own warning: ten minutes to drain and to stop
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"  # the only one that PutScheduledUpdateGroupAction takes


def find_block_end(parts: AwsPoolParts, reservation: str) -> str | None:
    """Ask AWS for the end of a Capacity Block that exists; None without an engine, or if the group is out of time."""
    end: str | None = aws.ec2.get_capacity_block_reservation(
        id=reservation, region=parts.plan.pool.region, opts=pulumi.InvokeOptions(parent=parts.component)
    ).end_date
    if end is None or parse_end(end) - SCALE_IN_BEFORE_END <= datetime.now(UTC):
        return None  # AWS refuses an action in the past
    return end


def declare_scale_in(parts: AwsPoolParts, suffix: str, group: Any, end: Any) -> None:
    """Declare the one-time action that empties the group. Its maximum stays, so that a person can use it again."""
    plan = parts.plan
    aws.autoscaling.Schedule(
        f"{plan.pool.name}{suffix}-block-end",
        scheduled_action_name=f"{plan.node_name_prefix}{suffix}-block-end",
        autoscaling_group_name=group.name,
        min_size=0,
        desired_capacity=0,
        max_size=-1,
        start_time=pulumi.Output.from_input(end).apply(format_scale_in_time),
        region=plan.pool.region,
        opts=parts.child_options(),
    )


def format_scale_in_time(end: str) -> str:
    """Return when to scale in, as AWS reads it, from the end of the block in RFC 3339."""
    return (parse_end(end) - SCALE_IN_BEFORE_END).strftime(TIME_FORMAT)


def parse_end(text: str) -> datetime:
    """Return a time of AWS in UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

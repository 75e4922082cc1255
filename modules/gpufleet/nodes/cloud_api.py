"""The instances that a cloud's API names: members of elastic groups are known nowhere else.

The edge is one paginated call; what it answers is read by a pure function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpufleet.errors import EnvironmentFault
from gpufleet.nodes.declaration import list_machine_accelerators
from gpufleet.nodes.identity import NodeIdentity
from gpufleet.nodes.model import NodeObservation
from gpufleet.nodes.pulumi_state import find_machine_usd_per_hour
from gpufleet.nodes.source_report import SourceReport

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

_EXISTS = ["pending", "running", "stopping", "stopped"]
_GROUP_TAG = "aws:autoscaling:groupName"


def fetch_aws_instance_report(
    stack: str, region: str, observed_at: datetime, client: EC2Client | None = None
) -> SourceReport:
    """Return a stack's instances in one AWS region; EnvironmentFault when the API does not answer."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    filters: list[Any] = [
        {"Name": "tag:gpufleet-stack", "Values": [stack]},
        {"Name": "instance-state-name", "Values": _EXISTS},
    ]
    try:
        ec2 = client or boto3.client("ec2", region_name=region)
        pages = ec2.get_paginator("describe_instances").paginate(Filters=filters)
        instances = [i for page in pages for group in page["Reservations"] for i in group["Instances"]]
    except (BotoCoreError, ClientError) as error:
        hint = "set AWS credentials that may call ec2:DescribeInstances"
        raise EnvironmentFault(f"aws {region}: {error}", hint=hint) from None
    return parse_aws_instances(instances, region, observed_at)


def parse_aws_instances(
    instances: Iterable[Mapping[str, Any]], region: str, observed_at: datetime
) -> SourceReport:
    """Return the report of DescribeInstances' answer. Pure."""
    source = f"aws:{region}"
    return SourceReport(
        source, observed_at, [_observation(instance, source, region, observed_at) for instance in instances]
    )


def _observation(instance: Mapping[str, Any], source: str, region: str, at: datetime) -> NodeObservation:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    machine, purchase = instance["InstanceType"], tags.get("gpufleet-purchase")
    observed = {
        "kind": "cloud_vm",
        "cloud": "aws",
        "region": region,
        "pool": tags.get("gpufleet-pool"),
        "stack": tags.get("gpufleet-stack"),
        "template": tags.get("gpufleet-template"),
        "machine": machine,
        "zone": instance.get("Placement", {}).get("AvailabilityZone"),
        "address": instance.get("PublicIpAddress") or instance.get("PrivateIpAddress"),
        "private_address": instance.get("PrivateIpAddress"),
        "lifecycle": instance.get("InstanceLifecycle", "on-demand"),
        "power": instance["State"]["Name"],
        "accelerators": list_machine_accelerators(machine),
        "usd_per_hour": find_machine_usd_per_hour("aws", region, machine, purchase),
    }
    values = {key: value for key, value in observed.items() if value is not None}
    identity = NodeIdentity(instance_id=instance["InstanceId"])
    return NodeObservation(
        source, _name(instance["InstanceId"], tags), identity, observed=values, observed_at=at
    )


def _name(instance_id: str, tags: Mapping[str, str]) -> str:
    """Members of a group share its tags: their names carry the instance, as in Pulumi's state."""
    if _GROUP_TAG in tags or "gpufleet-node" not in tags:
        group = "-".join(tags.get(f"gpufleet-{part}", "aws") for part in ("stack", "pool"))
        return f"{group}-{instance_id.removeprefix('i-')[:8]}"
    return tags["gpufleet-node"]

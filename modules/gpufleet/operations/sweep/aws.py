"""A stack's resources in one AWS region, each with how it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from gpufleet.catalog.prices.refresh.aws import (
    ClientFactory,
    iterate_page_items,
    translate_boto_errors,
)
from gpufleet.nodes.cloud_api.account import STACK_TAG, take_bounded
from gpufleet.nodes.cloud_api.aws import create_client, list_aws_instances, read_aws_tags
from gpufleet.nodes.cloud_api.instance import CloudInstance
from gpufleet.operations.sweep import price
from gpufleet.operations.sweep.finding import CloudResource

_GONE = ("InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidNetworkInterfaceID.NotFound",
         "InvalidAllocationID.NotFound", "InvalidCapacityReservationId.NotFound",
         "InvalidSpotInstanceRequestID.NotFound")  # fmt: skip


def list_aws_resources(
    stack_tag: str, region: str, create: ClientFactory = create_client
) -> Iterator[CloudResource]:
    """Yield the resources with the stack's tag that cost money or start something that does."""
    ec2 = create("ec2", region)
    listing = _Listing(region, stack_tag, ec2)
    for instance in list_aws_instances(region, {f"tag:{STACK_TAG}": [stack_tag]}, create):
        yield _instance(instance, ec2)
    yield from _list_groups(region, stack_tag, create)
    yield from _list_spot_requests(listing)
    yield from _list_reservations(listing)
    yield from _list_volumes(listing)
    yield from _list_interfaces(listing)
    yield from _list_addresses(listing)


class _Listing:
    """EC2's listings by the stack's tag."""

    def __init__(self, region: str, stack_tag: str, ec2: Any) -> None:
        self.region, self.stack_tag, self.ec2 = region, stack_tag, ec2

    def items(
        self, operation: str, key: str, states: Mapping[str, list[str]] | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
        """Yield (item, tags) of a listing."""
        name = f"aws {self.region} {operation}"
        values_by_filter = {f"tag:{STACK_TAG}": [self.stack_tag], **(states or {})}
        filters = [{"Name": key_, "Values": values} for key_, values in values_by_filter.items()]
        with translate_boto_errors(f"ec2:{_pascal(operation)}", name):
            call = getattr(self.ec2, operation)
            items = iterate_page_items(call, "NextToken", key, name, Filters=filters)
            for item in take_bounded(items, name):
                yield item, read_aws_tags(item.get("Tags") or item.get("TagSet"))

    def resource(self, kind: str, id_: str, tags: Mapping[str, str], **facts: Any) -> CloudResource:
        return CloudResource("aws", kind, id_, tags.get("Name", id_), self.region, tags, **facts)


def _pascal(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))


def delete_once(permission: str, call: Callable[..., Any], **arguments: Any) -> None:
    """Delete a resource; one that is gone already is deleted."""
    from botocore.exceptions import ClientError

    with translate_boto_errors(permission, "aws"):
        try:
            call(**arguments)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _GONE:
                raise


def _instance(instance: CloudInstance, ec2: Any) -> CloudResource:
    is_running = instance.state in ("pending", "running")
    usd = (
        price.machine_price("aws", instance.region, instance.machine, instance.purchase)
        if is_running
        else 0.0
    )
    return CloudResource(
        "aws", "instance", instance.instance_id, instance.name, instance.region, instance.tags,
        state=instance.state, machine=instance.machine, purchase=instance.purchase,
        created_at=instance.created_at, owner=instance.group, usd_per_hour=usd,
        delete=partial(
            delete_once, "ec2:TerminateInstances", ec2.terminate_instances, InstanceIds=[instance.instance_id]
        ),
    )  # fmt: skip


def _list_groups(region: str, stack_tag: str, create: ClientFactory) -> Iterator[CloudResource]:
    """Yield Auto Scaling groups: while one exists, it replaces the instances that are deleted."""
    name = f"aws {region} groups"
    with translate_boto_errors("autoscaling:DescribeAutoScalingGroups", name):
        client = create("autoscaling", region)
        filters = [{"Name": f"tag:{STACK_TAG}", "Values": [stack_tag]}]
        call = client.describe_auto_scaling_groups
        for item in take_bounded(
            iterate_page_items(call, "NextToken", "AutoScalingGroups", name, Filters=filters), name
        ):
            group = str(item["AutoScalingGroupName"])
            yield CloudResource(
                "aws", "group", str(item.get("AutoScalingGroupARN") or group), group, region,
                read_aws_tags(item.get("Tags")), state=str(item.get("Status") or ""), other_ids=(group,),
                created_at=_time(item.get("CreatedTime")), usd_per_hour=0.0,
                delete=partial(
                    delete_once, "autoscaling:DeleteAutoScalingGroup", client.delete_auto_scaling_group,
                    AutoScalingGroupName=group, ForceDelete=True,
                ),
            )  # fmt: skip


def _list_spot_requests(listing: _Listing) -> Iterator[CloudResource]:
    """Yield requests that still start instances; one-time requests end with theirs."""
    states = {"state": ["open", "active"]}
    for item, tags in listing.items("describe_spot_instance_requests", "SpotInstanceRequests", states):
        id_ = str(item["SpotInstanceRequestId"])
        yield listing.resource(
            "spot_request", id_, tags, state=str(item.get("State", "")), created_at=_time(item.get("CreateTime")),
            is_in_use=item.get("Type") == "one-time" and item.get("State") == "active", usd_per_hour=0.0,
            machine=str(item.get("LaunchSpecification", {}).get("InstanceType") or ""),
            delete=partial(
                delete_once, "ec2:CancelSpotInstanceRequests", listing.ec2.cancel_spot_instance_requests,
                SpotInstanceRequestIds=[id_],
            ),
        )  # fmt: skip


def _list_reservations(listing: _Listing) -> Iterator[CloudResource]:
    states = {"state": ["active", "pending"]}
    for item, tags in listing.items("describe_capacity_reservations", "CapacityReservations", states):
        id_, machine = str(item["CapacityReservationId"]), str(item.get("InstanceType") or "")
        is_block = item.get("ReservationType") == "capacity-block"
        free = int(item.get("AvailableInstanceCount") or 0)
        cancel = partial(
            delete_once, "ec2:CancelCapacityReservation", listing.ec2.cancel_capacity_reservation,
            CapacityReservationId=id_,
        )  # fmt: skip
        yield listing.resource(
            "reservation", id_, tags, state=str(item.get("State", "")), machine=machine,
            created_at=_time(item.get("CreateDate")),
            usd_per_hour=0.0 if is_block else price.machine_price("aws", listing.region, machine, None, free),
            delete=None if is_block else cancel,
            keep_reason="a Capacity Block is paid for and cannot be cancelled" if is_block else "",
        )  # fmt: skip


def _list_volumes(listing: _Listing) -> Iterator[CloudResource]:
    for item, tags in listing.items("describe_volumes", "Volumes"):
        id_, kind = str(item["VolumeId"]), str(item.get("VolumeType") or "")
        yield listing.resource(
            "volume", id_, tags, state=f"{item.get('Size', '?')} GiB {kind} {item.get('State', '')}",
            created_at=_time(item.get("CreateTime")), is_in_use=item.get("State") != "available",
            usd_per_hour=price.part_price("aws", listing.region, f"ebs:{kind}", float(item.get("Size") or 0)),
            delete=partial(delete_once, "ec2:DeleteVolume", listing.ec2.delete_volume, VolumeId=id_),
        )  # fmt: skip


def _list_interfaces(listing: _Listing) -> Iterator[CloudResource]:
    for item, tags in listing.items("describe_network_interfaces", "NetworkInterfaces"):
        id_ = str(item["NetworkInterfaceId"])
        yield listing.resource(
            "network_interface", id_, tags, state=str(item.get("Status", "")), usd_per_hour=0.0,
            is_in_use=item.get("Status") != "available" or bool(item.get("RequesterManaged")),
            delete=partial(
                delete_once, "ec2:DeleteNetworkInterface", listing.ec2.delete_network_interface,
                NetworkInterfaceId=id_,
            ),
        )  # fmt: skip


def _list_addresses(listing: _Listing) -> Iterator[CloudResource]:
    for item, tags in listing.items("describe_addresses", "Addresses"):
        id_ = str(item["AllocationId"])
        yield listing.resource(
            "address", id_, tags, state=str(item.get("PublicIp") or ""), other_ids=(str(item.get("PublicIp") or id_),),
            is_in_use=bool(item.get("AssociationId")), usd_per_hour=price.address_price("aws", listing.region),
            delete=partial(
                delete_once, "ec2:ReleaseAddress", listing.ec2.release_address, AllocationId=id_
            ),
        )  # fmt: skip


def _time(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None

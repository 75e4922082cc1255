"""What EC2 refuses when it launches instances: of an instance, a launch template or a spot request."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_json
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_boolean,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

INSTANCE = "aws:ec2/instance:Instance"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SPOT_REQUEST = "aws:ec2/spotInstanceRequest:SpotInstanceRequest"
RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
_DOCS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide"
_SOLD_AS = {"on-demand": "o", "spot": "s", "capacity-block": "b"}
_MAX_USER_DATA = 16_384
_MAX_HOPS = 64


@cache
def _records() -> dict[str, Any]:
    records: dict[str, Any] = read_packaged_json("gpufleet.rehearsal.providers", "data/machines/aws.json")
    return records


def get_machine_record(instance_type: Any) -> tuple[str, list[list[int]], int, bool, int] | None:
    """Return (usage classes, network cards, EFA interfaces, cluster placement, vCPUs); None for an unknown type."""
    record = _records()["machines"].get(instance_type) if isinstance(instance_type, str) else None
    return (record[0], record[1], record[2], bool(record[3]), record[4]) if record else None


def is_offered(instance_type: str, region: str) -> bool:
    """Return whether a region offers an accelerator type; True for what was not recorded."""
    records = _records()
    if instance_type not in records["accelerated"] or region not in records["regions"]:
        return True
    return instance_type in records["regions"][region]


def get_market_type(inputs: Inputs) -> str:
    return str(as_object(inputs.get("instanceMarketOptions")).get("marketType") or "on-demand")


def get_reservation_target(inputs: Inputs) -> Inputs:
    return as_object(
        as_object(inputs.get("capacityReservationSpecification")).get("capacityReservationTarget")
    )


@constrains(
    INSTANCE, source="RunInstances: ImageId and InstanceType are required unless a launch template has them"
)
def _needs_image_and_type(inputs: Inputs) -> Iterator[Problem]:
    for key in ("ami", "instanceType"):
        if key not in inputs and "launchTemplate" not in inputs:
            yield key, f"MissingParameter: an instance without launch template needs {key!r}"


@constrains(
    INSTANCE, TEMPLATE, source=f"{_DOCS}/capacity-reservations-using.html: Spot Instances cannot use them"
)
def _spot_uses_no_reservation(inputs: Inputs) -> Iterator[Problem]:
    if get_market_type(inputs) == "spot" and get_reservation_target(inputs):
        yield "instanceMarketOptions", "spot instances can't run in a capacity reservation"


@constrains(
    INSTANCE, TEMPLATE, source=f"{_DOCS}/capacity-blocks-launch.html: the request needs the reservation's id"
)
def _capacity_block_needs_target(inputs: Inputs) -> Iterator[Problem]:
    if get_market_type(inputs) == "capacity-block" and not get_reservation_target(inputs):
        yield (
            "capacityReservationSpecification",
            "InvalidParameterCombination: market type capacity-block needs the id of the Capacity Block as target",
        )


@constrains(
    INSTANCE,
    TEMPLATE,
    source=f"{_DOCS}/capacity-blocks-using.html: Capacity Blocks can't be used with placement groups",
)
def _capacity_block_has_no_placement_group(inputs: Inputs) -> Iterator[Problem]:
    placement = as_object(inputs.get("placement"))
    groups = ("placementGroup", "placementGroupId"), ("groupName", "groupId")
    has_group = any(inputs.get(key) for key in groups[0]) or any(placement.get(key) for key in groups[1])
    if get_market_type(inputs) == "capacity-block" and has_group:
        yield (
            "placementGroup",
            "InvalidParameterCombination: a Capacity Block has its own placement; set no placement group",
        )


@constrains(
    INSTANCE,
    TEMPLATE,
    SPOT_REQUEST,
    source="DescribeInstanceTypes: SupportedUsageClasses of the instance type",
)
def _type_is_sold_this_way(inputs: Inputs) -> Iterator[Problem]:
    record, market = get_machine_record(inputs.get("instanceType")), get_market_type(inputs)
    if record and market in _SOLD_AS and _SOLD_AS[market] not in record[0]:
        yield "instanceMarketOptions", f"Unsupported: {inputs['instanceType']} is not sold as {market}"


@constrains(INSTANCE, TEMPLATE, RESERVATION, source="DescribeInstanceTypeOfferings of the region")
def _type_is_offered_in_region(inputs: Inputs) -> Iterator[Problem]:
    region, instance_type = inputs.get("region"), inputs.get("instanceType")
    if is_known(region) and is_known(instance_type) and not is_offered(str(instance_type), str(region)):
        yield "instanceType", f"Unsupported: {instance_type} is not offered in {region}"


@constrains(
    INSTANCE, TEMPLATE, source=f"{_DOCS}/spot-interruptions.html: only persistent requests stop or hibernate"
)
def _stop_needs_persistent_request(inputs: Inputs) -> Iterator[Problem]:
    options = as_object(as_object(inputs.get("instanceMarketOptions")).get("spotOptions"))
    behavior = options.get("instanceInterruptionBehavior")
    if behavior in ("stop", "hibernate") and options.get("spotInstanceType") != "persistent":
        yield (
            "instanceMarketOptions.spotOptions.instanceInterruptionBehavior",
            f"InvalidParameterCombination: {behavior} needs spotInstanceType persistent",
        )
    placement = inputs.get("placementGroup") or as_object(inputs.get("placement")).get("groupName")
    if behavior in ("stop", "hibernate") and placement:
        yield (
            "placementGroup",
            "InvalidParameterCombination: a placement group needs interruption behavior terminate",
        )
    if options and get_market_type(inputs) != "spot":
        yield (
            "instanceMarketOptions.spotOptions",
            "InvalidParameterCombination: spot options need market type spot",
        )


@constrains(INSTANCE, TEMPLATE, source="EC2 API error codes: InvalidCapacityReservationId.Malformed")
def _reservation_id_is_one(inputs: Inputs) -> Iterator[Problem]:
    identity = get_reservation_target(inputs).get("capacityReservationId")
    if is_known(identity) and not re.fullmatch(r"cr-[0-9a-f]{8,17}", str(identity)):
        path = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
        yield path, f"InvalidCapacityReservationId.Malformed: Invalid id: {identity!r} (expecting 'cr-...')"


def _interfaces(inputs: Inputs) -> list[Inputs]:
    return [as_object(item) for item in as_list(inputs.get("networkInterfaces"))]


@constrains(
    TEMPLATE, source=f"{_DOCS}/using-instance-addressing.html: no public address with several interfaces"
)
def _several_interfaces_have_no_public_address(inputs: Inputs) -> Iterator[Problem]:
    interfaces = _interfaces(inputs)
    for index, interface in enumerate(interfaces):
        if len(interfaces) > 1 and as_boolean(interface.get("associatePublicIpAddress")):
            yield (
                f"networkInterfaces[{index}].associatePublicIpAddress",
                "InvalidParameterCombination: associatePublicIpAddress cannot be set with several network interfaces",
            )
        if as_boolean(interface.get("associatePublicIpAddress")) and interface.get("deviceIndex") not in (
            0,
            None,
        ):
            yield (
                f"networkInterfaces[{index}].associatePublicIpAddress",
                "InvalidParameterCombination: a public address is only for device index 0",
            )


@constrains(
    TEMPLATE,
    source="RunInstances: with network interfaces, subnet and security groups belong to the interface",
)
def _security_groups_belong_to_interfaces(inputs: Inputs) -> Iterator[Problem]:
    if _interfaces(inputs) and (inputs.get("vpcSecurityGroupIds") or inputs.get("securityGroupNames")):
        yield (
            "vpcSecurityGroupIds",
            "InvalidParameterCombination: network interfaces and instance-level security groups exclude each other",
        )


@constrains(
    TEMPLATE, source="DescribeInstanceTypes: NetworkInfo; efa.html: EFA network cards of each instance type"
)
def _interfaces_fit_network_cards(inputs: Inputs) -> Iterator[Problem]:
    interfaces, record = _interfaces(inputs), get_machine_record(inputs.get("instanceType"))
    if not interfaces or record is None:
        return
    cards = [(most, efa) for count, most, efa in record[1] for _ in range(count)]
    name, efa_count, used = inputs["instanceType"], 0, Counter[int]()
    for index, interface in enumerate(interfaces):
        card, path = int(as_number(interface.get("networkCardIndex")) or 0), f"networkInterfaces[{index}]"
        is_efa = str(interface.get("interfaceType", "")).startswith("efa")
        efa_count += is_efa
        if card >= len(cards):
            yield f"{path}.networkCardIndex", f"InvalidParameterValue: {name} has {len(cards)} network cards"
            continue
        used[card] += 1
        if used[card] > cards[card][0]:
            yield (
                f"{path}.networkCardIndex",
                f"AttachmentLimitExceeded: card {card} of {name} has {cards[card][0]} interfaces",
            )
        if is_efa and record[2] == 0:
            yield (
                f"{path}.interfaceType",
                f"InvalidParameterCombination: EFA interfaces are not supported on {name}",
            )
        elif is_efa and not cards[card][1]:
            yield (
                f"{path}.interfaceType",
                f"InvalidParameterCombination: network card {card} of {name} has no EFA",
            )
    if efa_count > record[2] > 0:
        yield (
            "networkInterfaces",
            f"AttachmentLimitExceeded: {name} has {record[2]} EFA interfaces, got {efa_count}",
        )


@constrains(
    TEMPLATE,
    source=f"{_DOCS}/efa-acc-inst-types.html: device index 0 on card 0; an index is used once per card",
)
def _device_indexes_are_unique(inputs: Inputs) -> Iterator[Problem]:
    interfaces = _interfaces(inputs)
    places = [
        (as_number(item.get("networkCardIndex")) or 0, as_number(item.get("deviceIndex")) or 0)
        for item in interfaces
    ]
    if interfaces and (0, 0) not in places:
        yield (
            "networkInterfaces",
            "InvalidParameterValue: an interface with network card 0 and device index 0 is missing",
        )
    for index, (item, place) in enumerate(zip(interfaces, places, strict=True)):
        if places.index(place) != index:
            yield (
                f"networkInterfaces[{index}].deviceIndex",
                "InvalidParameterCombination: device index is used twice",
            )
        if place == (0, 0) and item.get("interfaceType") == "efa-only":
            yield (
                f"networkInterfaces[{index}].interfaceType",
                "InvalidParameterCombination: the primary interface needs an address; efa-only has none",
            )


@constrains(INSTANCE, TEMPLATE, source="DescribeInstanceTypes: PlacementGroupInfo.SupportedStrategies")
def _type_supports_cluster_placement(inputs: Inputs) -> Iterator[Problem]:
    record = get_machine_record(inputs.get("instanceType"))
    group = inputs.get("placementGroup") or as_object(inputs.get("placement")).get("groupName")
    if record and group and not record[3]:
        yield (
            "placementGroup",
            f"InvalidParameterCombination: {inputs['instanceType']} has no cluster placement",
        )


@constrains(INSTANCE, source="terraform-provider-aws ec2_instance.go: ConflictsWith of network_interface")
def _interface_conflicts(inputs: Inputs) -> Iterator[Problem]:
    others = ("associatePublicIpAddress", "subnetId", "privateIp", "vpcSecurityGroupIds", "securityGroups")
    if inputs.get("networkInterfaces"):
        for key in others:
            if key in inputs:
                yield key, "conflicts with networkInterfaces"
    if "userData" in inputs and "userDataBase64" in inputs:
        yield "userData", "conflicts with userDataBase64"


@constrains(
    INSTANCE, TEMPLATE, source=f"{_DOCS}/instancedata-add-user-data.html: limited to 16 KB before encoding"
)
def _user_data_is_small(inputs: Inputs) -> Iterator[Problem]:
    text, is_template = inputs.get("userData"), "imageId" in inputs or "latestVersion" in inputs
    if not isinstance(text, str) or not is_known(text):
        return
    size = len(text.encode())
    if is_template:
        try:
            size = len(base64.b64decode(text, validate=True))
        except binascii.Error:
            yield "userData", "InvalidUserData.Malformed: a launch template's user data must be base64"
            return
    if size > _MAX_USER_DATA:
        yield "userData", f"InvalidParameterValue: user data is limited to {_MAX_USER_DATA} bytes, got {size}"


@constrains(INSTANCE, TEMPLATE, source="InstanceMetadataOptionsRequest: HttpPutResponseHopLimit, 1 to 64")
def _hop_limit_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    hops = as_number(as_object(inputs.get("metadataOptions")).get("httpPutResponseHopLimit"))
    if hops is not None and not 1 <= hops <= _MAX_HOPS:
        yield (
            "metadataOptions.httpPutResponseHopLimit",
            f"InvalidParameterValue: 1 to {_MAX_HOPS}, got {hops:g}",
        )

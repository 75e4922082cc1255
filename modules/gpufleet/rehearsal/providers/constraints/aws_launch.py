"""What EC2 refuses when it launches instances: of an instance, a launch template or a spot request."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_json
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
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


def _interfaces(inputs: Inputs) -> list[Inputs]:
    return [as_object(item) for item in as_list(inputs.get("networkInterfaces"))]


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

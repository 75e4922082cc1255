"""What AWS refuses about groups, fleets, reservations, networks and addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from gpufleet.rehearsal.providers.constraints.aws_launch import (
    INSTANCE,
    RESERVATION,
    TEMPLATE,
    get_machine_record,
)
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

GROUP = "aws:autoscaling/group:Group"
FLEET = "aws:ec2/fleet:Fleet"
_ASG = "https://docs.aws.amazon.com/autoscaling/ec2/userguide"
_EC2 = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide"
_MAX_TAGS = 50
_TAGGED = (
    INSTANCE,
    TEMPLATE,
    RESERVATION,
    FLEET,
    "aws:ec2/vpc:Vpc",
    "aws:ec2/subnet:Subnet",
    "aws:ebs/volume:Volume",
)


@constrains(GROUP, source="CreateAutoScalingGroup: a launch template or a mixed instances policy is required")
def _group_has_a_template(inputs: Inputs) -> Iterator[Problem]:
    sources = ("launchTemplate", "mixedInstancesPolicy", "launchConfiguration")
    present = [key for key in sources if key in inputs]
    if len(present) != 1:
        yield "", f"ValidationError: one of {', '.join(sources)} must be set, got {present}"


@constrains(GROUP, source="CreateAutoScalingGroup: MinSize, DesiredCapacity, MaxSize")
def _group_sizes_are_in_order(inputs: Inputs) -> Iterator[Problem]:
    least, most = as_number(inputs.get("minSize")), as_number(inputs.get("maxSize"))
    desired = as_number(inputs.get("desiredCapacity", least))
    if least is not None and most is not None and desired is not None and not 0 <= least <= desired <= most:
        text = f"minSize {least:g}, desiredCapacity {desired:g}, maxSize {most:g} are out of order"
        yield "desiredCapacity", f"ValidationError: {text}"


@constrains(GROUP, source=f"{_ASG}/ec2-auto-scaling-mixed-instances-groups.html")
def _mixed_policy_is_possible(inputs: Inputs) -> Iterator[Problem]:
    policy = as_object(inputs.get("mixedInstancesPolicy"))
    price = as_object(policy.get("instancesDistribution")).get("spotMaxPrice")
    if is_known(price) and price != "" and (as_number(price) or 0) <= 0:
        path = "mixedInstancesPolicy.instancesDistribution.spotMaxPrice"
        yield path, f"ValidationError: a price above 0, got {price!r}"
    overrides = as_list(as_object(policy.get("launchTemplate")).get("overrides"))
    types = [as_object(item).get("instanceType") for item in overrides]
    for index, name in enumerate(types):
        place = f"mixedInstancesPolicy.launchTemplate.overrides[{index}].instanceType"
        if is_known(name) and types.index(name) != index:
            yield place, f"ValidationError: {name} is listed twice"
        elif is_known(name) and get_machine_record(name) is None:
            yield place, f"InvalidParameterValue: {name!r} is not an instance type"


@constrains("aws:autoscaling/policy:Policy", source=f"{_ASG}/as-scaling-simple-step.html: step adjustments")
def _steps_join(inputs: Inputs) -> Iterator[Problem]:
    steps = as_list(inputs.get("stepAdjustments"))
    ranges = []
    for index, step in enumerate(map(as_object, steps)):
        lower = as_number(step.get("metricIntervalLowerBound"))
        upper = as_number(step.get("metricIntervalUpperBound"))
        if lower is None and upper is None and len(steps) > 1:
            yield f"stepAdjustments[{index}]", "ValidationError: a step without bounds must be the only one"
        ranges.append(
            (float("-inf") if lower is None else lower, float("inf") if upper is None else upper, index)
        )
    for (_, end, _), (start, _, index) in zip(sorted(ranges), sorted(ranges)[1:], strict=False):
        if start != end:
            yield f"stepAdjustments[{index}]", "ValidationError: step ranges must not overlap or leave a gap"


@constrains(
    FLEET, source="CreateFleet and ec2-fleet-request-type.html: what only a fleet of type instant has"
)
def _fleet_matches_its_type(inputs: Inputs) -> Iterator[Problem]:
    kind = inputs.get("type", "maintain")
    for section in ("spotOptions", "onDemandOptions"):
        options = as_object(inputs.get(section))
        for key in ("singleInstanceType", "singleAvailabilityZone", "minTargetCapacity"):
            if options.get(key) not in (None, False, 0) and kind != "instant":
                yield f"{section}.{key}", f"InvalidParameterCombination: {key} needs a fleet of type instant"
    capacity = as_object(inputs.get("targetCapacitySpecification"))
    total = as_number(capacity.get("totalTargetCapacity"))
    parts = [as_number(capacity.get(key)) or 0 for key in ("onDemandTargetCapacity", "spotTargetCapacity")]
    if total is not None and sum(parts) > total:
        yield (
            "targetCapacitySpecification",
            "InvalidTargetCapacitySpecification: the parts exceed totalTargetCapacity",
        )


@constrains(RESERVATION, source=f"{_EC2}/capacity-reservations-create.html")
def _type_is_reservable(inputs: Inputs) -> Iterator[Problem]:
    record = get_machine_record(inputs.get("instanceType"))
    if record and "o" not in record[0]:
        yield (
            "instanceType",
            f"Unsupported: {inputs['instanceType']} is not sold on demand, so no reservation of it",
        )
    if record and inputs.get("placementGroupArn") and not record[3]:
        yield (
            "placementGroupArn",
            f"InvalidParameterCombination: {inputs['instanceType']} has no cluster placement",
        )


@constrains(
    RESERVATION,
    "aws:ec2/subnet:Subnet",
    INSTANCE,
    "aws:ebs/volume:Volume",
    source="DescribeAvailabilityZones",
)
def _zone_is_in_region(inputs: Inputs) -> Iterator[Problem]:
    zone, region = inputs.get("availabilityZone"), inputs.get("region")
    if is_known(zone) and not re.fullmatch(
        r"[a-z]{2}(-[a-z]+)+-\d[a-z](-[a-z0-9-]+)?|[a-z]{2}(-[a-z]+)+-\d-\w+-\d[a-z]", str(zone)
    ):
        yield "availabilityZone", f"InvalidParameterValue: {zone!r} is not an availability zone"
    elif is_known(zone) and is_known(region) and not str(zone).startswith(str(region)):
        yield "availabilityZone", f"InvalidParameterValue: {zone} is not a zone of {region}"


@constrains(
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", source="AuthorizeSecurityGroupIngress"
)
def _rule_has_one_source(inputs: Inputs) -> Iterator[Problem]:
    sources = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
    present = [key for key in sources if key in inputs]
    if len(present) != 1:
        yield "", f"exactly one of {', '.join(sources)} must be set, got {present}"


@constrains(
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
    source="IpPermission: ports only with tcp, udp and icmp",
)
def _rule_ports_are_valid(inputs: Inputs) -> Iterator[Problem]:
    start, end = as_number(inputs.get("fromPort")), as_number(inputs.get("toPort"))
    protocol = str(inputs.get("ipProtocol"))
    if protocol == "-1" and (start not in (None, -1) or end not in (None, -1)):
        yield "fromPort", "InvalidParameterValue: all protocols (-1) have no ports"
    if protocol in ("tcp", "udp", "6", "17"):
        if start is None or end is None:
            if "fromPort" not in inputs or "toPort" not in inputs:
                yield "fromPort", f"InvalidParameterValue: {protocol} needs fromPort and toPort"
        elif not 0 <= start <= end <= 65_535:  # noqa: PLR2004 - ports
            yield "fromPort", f"InvalidParameterValue: ports {start:g} to {end:g}"
    for key in ("cidrIpv4", "cidrIpv6"):
        value = inputs.get(key)
        if is_known(value) and not _is_block(str(value)):
            yield key, f"InvalidParameterValue: {value!r} is not a CIDR block"


def _is_block(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return "/" in text


@constrains("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", source="vpc-cidr-blocks.html: /16 to /28")
def _block_has_a_valid_size(inputs: Inputs) -> Iterator[Problem]:
    value = inputs.get("cidrBlock")
    if not is_known(value):
        return
    if not _is_block(str(value)) or not 16 <= ipaddress.ip_network(str(value)).prefixlen <= 28:  # noqa: PLR2004
        yield "cidrBlock", f"InvalidVpc.Range: a block of /16 to /28 whose host bits are zero, got {value!r}"


@constrains(*_TAGGED, source=f"{_EC2}/Using_Tags.html: tag restrictions")
def _tags_are_valid(inputs: Inputs) -> Iterator[Problem]:
    tags: dict[str, Any] = as_object(inputs.get("tags"))
    if len(tags) > _MAX_TAGS:
        yield "tags", f"TagLimitExceeded: at most {_MAX_TAGS}, got {len(tags)}"
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            yield f"tags.{key}", "InvalidParameterValue: keys that start with aws: are AWS's own"
        if len(key) > 128 or (isinstance(value, str) and is_known(value) and len(value) > 256):  # noqa: PLR2004
            yield f"tags.{key}", "InvalidParameterValue: a key has at most 128 characters, a value 256"

"""Answers to lookups (invokes): images, zones that offer a machine, members of a scaling group."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet.rehearsal.providers.property_values import PlainValues
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.store import ResourceRow, ResourceStore

_BUILD = "20260101"  # simulated images do not age: a rerun ends in the same state
_ZONE_LETTERS = ("a", "b")
_GROUP_FILTER = "tag:aws:autoscaling:groupName"


@dataclass(frozen=True)
class CloudLookup:
    """One lookup in a simulated cloud."""

    schema: CloudSchema
    store: ResourceStore
    args: PlainValues

    @property
    def region(self) -> str:
        return str(self.args.get("region") or self.schema.defaults["region"])

    def get_filter_values(self, filter_name: str) -> list[str]:
        """Return the values of a filter; empty if it is not set."""
        return next(
            (list(item["values"]) for item in self.args.get("filters", []) if item["name"] == filter_name), []
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:17]


def _get_ami(lookup: CloudLookup) -> PlainValues:
    """Return one image per region, owner and name pattern."""
    owners, patterns = lookup.args.get("owners") or [], lookup.get_filter_values("name")
    if not owners or not patterns:
        raise LookupError("the simulated aws finds images by owners and a filter on name; set both")
    identity = f"ami-{_digest(f'{lookup.region} {owners} {patterns}')}"
    return {
        **lookup.args,
        "id": identity,
        "imageId": identity,
        "name": patterns[0].replace("*", _BUILD),
        "ownerId": owners[0],
        "arn": f"arn:aws:ec2:{lookup.region}::image/{identity}",
        "architecture": (lookup.get_filter_values("architecture") or ["x86_64"])[0],
        "rootDeviceName": "/dev/sda1",
        "rootDeviceType": "ebs",
        "virtualizationType": "hvm",
        "state": "available",
        "region": lookup.region,
    }


def _get_offerings(lookup: CloudLookup) -> PlainValues:
    """Return an offering of every instance type in the region's first zones."""
    zones = [f"{lookup.region}{letter}" for letter in _ZONE_LETTERS]
    instance_type = (lookup.get_filter_values("instance-type") or ["unknown"])[0]
    return {
        **lookup.args,
        "id": lookup.region,
        "instanceTypes": [instance_type] * len(zones),
        "locations": zones,
        "locationTypes": ["availability-zone"] * len(zones),
        "region": lookup.region,
    }


def _get_instances(lookup: CloudLookup) -> PlainValues:
    """Return the members of the scaling groups named in the filter."""
    names = lookup.get_filter_values(_GROUP_FILTER)
    if not names:
        raise LookupError(f"the simulated aws finds instances by a filter on {_GROUP_FILTER}")
    groups = [lookup.store.get_resource("aws:autoscaling/group:Group", name) for name in names]
    members = [member for group in groups if group for member in _members(lookup, group)]
    return {
        **lookup.args,
        "id": lookup.region,
        "ids": [member.id for member in members],
        "privateIps": [member.private_ip for member in members],
        "publicIps": [member.public_ip for member in members],
        "ipv6Addresses": [],
        "region": lookup.region,
    }


@dataclass(frozen=True)
class ScalingGroupMember:
    """One machine of a scaling group."""

    id: str
    private_ip: str
    public_ip: str


def _members(lookup: CloudLookup, group: ResourceRow) -> list[ScalingGroupMember]:
    """Return a group's machines, derived from its id."""
    subnets = [
        lookup.store.get_resource("aws:ec2/subnet:Subnet", name)
        for name in group.inputs.get("vpcZoneIdentifiers", [])
    ]
    blocks = [subnet.inputs["cidrBlock"] for subnet in subnets if subnet] or ["10.255.0.0/16"]

    def lease_ip_address(block: str, purpose: str) -> str:
        return lookup.store.lease_ip_address(block, group.type, group.id, purpose)

    return [
        ScalingGroupMember(
            f"i-{_digest(f'{group.id}/{number}')}",
            lease_ip_address(blocks[number % len(blocks)], f"private {number}"),
            lease_ip_address(lookup.schema.public_network, f"public {number}"),
        )
        for number in range(int(group.outputs.get("desiredCapacity") or 0))
    ]


def _get_zones(lookup: CloudLookup) -> PlainValues:
    """Return all zones of the region."""
    names = [f"{lookup.region}{letter}" for letter in (*_ZONE_LETTERS, "c")]
    ids = [f"{lookup.region}-az{number}" for number in range(1, len(names) + 1)]
    return {**lookup.args, "id": lookup.region, "names": names, "zoneIds": ids, "groupNames": [lookup.region]}


def _get_vpc(lookup: CloudLookup) -> PlainValues:
    """Return the default network of a region."""
    if not lookup.args.get("default"):
        raise LookupError("the simulated aws finds the default network only; set default=True")
    return {
        **lookup.args,
        "id": f"vpc-{_digest(lookup.region)}",
        "cidrBlock": "172.31.0.0/16",
        "state": "available",
    }


def _get_subnets(lookup: CloudLookup) -> PlainValues:
    """Return a subnet in each zone of the default network."""
    if lookup.get_filter_values("vpc-id") != [f"vpc-{_digest(lookup.region)}"]:
        raise LookupError(
            "the simulated aws finds the subnets of the default network only; filter by its vpc-id"
        )
    zones = _get_zones(lookup)["names"]
    return {**lookup.args, "id": lookup.region, "ids": [f"subnet-{_digest(zone)}" for zone in zones]}


def _get_image(lookup: CloudLookup) -> PlainValues:
    """Return the current image of a project's image family."""
    project, family = lookup.args.get("project"), lookup.args.get("family")
    if not project or not family:
        raise LookupError("the simulated gcp finds images by project and family; set both")
    name = f"{family}-v{_BUILD}"
    identity = f"projects/{project}/global/images/{name}"
    return {
        **lookup.args,
        "id": identity,
        "name": name,
        "imageId": str(int(_digest(identity)[:15], 16)),
        "selfLink": f"https://www.googleapis.com/compute/v1/{identity}",
        "status": "READY",
    }


LOOKUPS: dict[str, Callable[[CloudLookup], PlainValues]] = {
    "aws:ec2/getAmi:getAmi": _get_ami,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": _get_offerings,
    "aws:ec2/getInstances:getInstances": _get_instances,
    "aws:ec2/getSubnets:getSubnets": _get_subnets,
    "aws:ec2/getVpc:getVpc": _get_vpc,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _get_zones,
    "gcp:compute/getImage:getImage": _get_image,
}

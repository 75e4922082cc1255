"""Answers to lookups (invokes): images, zones that offer a machine, members of a scaling group."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from gpufleet.rehearsal.providers.constraints.aws_launch import is_offered
from gpufleet.rehearsal.providers.property_values import PlainValues
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.store import ResourceStore

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
    """Return an image: by its id, else one per region, owner and name. An account's own images have owner ``self``."""
    owners = lookup.args.get("owners") or []
    ids, names = lookup.get_filter_values("image-id"), lookup.get_filter_values("name")
    names = names or [str(pattern) for pattern in [lookup.args.get("nameRegex")] if pattern]
    if not ids and not names:
        raise LookupError("the simulated aws finds images by a filter on image-id or name, or by nameRegex")
    if ids and not ids[0].startswith("ami-"):
        raise LookupError(f"InvalidAMIID.Malformed: Invalid id: {ids[0]!r} (expecting 'ami-...')")
    identity = ids[0] if ids else f"ami-{_digest(f'{lookup.region} {owners} {names}')}"
    owner = str(owners[0]) if owners else "amazon"
    return {
        **lookup.args,
        "id": identity,
        "imageId": identity,
        "name": names[0].replace("*", _BUILD) if names else identity,
        "ownerId": lookup.schema.defaults["account"] if owner == "self" else owner,
        "arn": f"arn:aws:ec2:{lookup.region}::image/{identity}",
        "architecture": (lookup.get_filter_values("architecture") or ["x86_64"])[0],
        "rootDeviceName": "/dev/sda1",
        "rootDeviceType": "ebs",
        "virtualizationType": "hvm",
        "state": "available",
        "region": lookup.region,
    }


def _get_offerings(lookup: CloudLookup) -> PlainValues:
    """Return an offering of an instance type in the region's first zones, none if the region does not sell it."""
    instance_type = (lookup.get_filter_values("instance-type") or ["unknown"])[0]
    is_sold = is_offered(instance_type, lookup.region)
    zones = [f"{lookup.region}{letter}" for letter in _ZONE_LETTERS] if is_sold else []
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
    members = [member for name in names for member in lookup.store.find_members(name)]
    return {
        **lookup.args,
        "id": lookup.region,
        "ids": [member.id for member in members],
        "privateIps": [member.private_address for member in members],
        "publicIps": [member.public_address for member in members if member.public_address],
        "ipv6Addresses": [],
        "region": lookup.region,
    }


def _get_capacity_block(lookup: CloudLookup) -> PlainValues:
    """Return a Capacity Block by its id. Blocks end at 11:30 UTC (EC2, "How Capacity Blocks work")."""
    identity = str(lookup.args.get("id") or "")
    if not re.fullmatch(r"cr-[0-9a-f]{8,17}", identity):
        raise LookupError("the simulated aws finds a Capacity Block by its id, cr-…")
    return {
        **lookup.args,
        "reservationType": "capacity-block",
        "endDate": "2099-12-31T11:30:00Z",  # a rerun ends in the same state
        "region": lookup.region,
    }


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
    """Return an image by name, or the current one of a family; the project is the account's own by default."""
    name, family = lookup.args.get("name"), lookup.args.get("family")
    if bool(name) == bool(family) and not lookup.args.get("filter"):
        raise LookupError("the simulated gcp finds images by a name or a family; set one of them")
    if name and not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", str(name)):
        raise LookupError(
            f"Invalid value for field 'image': {name!r}; a-z, 0-9 and -, at most 63, from a letter"
        )
    project = lookup.args.get("project") or lookup.schema.defaults["project"]
    name = str(name or f"{family or 'filtered'}-v{_BUILD}")
    identity = f"projects/{project}/global/images/{name}"
    return {
        **lookup.args,
        "project": project,
        "id": identity,
        "name": name,
        "imageId": str(int(_digest(identity)[:15], 16)),
        "selfLink": f"https://www.googleapis.com/compute/v1/{identity}",
        "status": "READY",
    }


LOOKUPS: dict[str, Callable[[CloudLookup], PlainValues]] = {
    "aws:ec2/getAmi:getAmi": _get_ami,
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": _get_capacity_block,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": _get_offerings,
    "aws:ec2/getInstances:getInstances": _get_instances,
    "aws:ec2/getSubnets:getSubnets": _get_subnets,
    "aws:ec2/getVpc:getVpc": _get_vpc,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _get_zones,
    "gcp:compute/getImage:getImage": _get_image,
}

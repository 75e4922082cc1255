"""AWS: limits from Service Quotas; usage counted from running instances and unused reservations, per region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpufleet import fleet
from gpufleet.catalog.prices.refresh.aws import (
    ClientFactory,
    iterate_page_items,
    translate_boto_errors,
)
from gpufleet.nodes.cloud_api.account import STACK_TAG, take_bounded
from gpufleet.nodes.cloud_api.aws import build_client_factory, list_aws_instances
from gpufleet.nodes.cloud_api.instance import CloudInstance
from gpufleet.operations.quota.increase import build_aws_request
from gpufleet.operations.quota.need import QuotaNeed
from gpufleet.operations.quota.usage import BucketUsage

SERVICE = "ec2"
TYPES_PER_CALL = 100  # DescribeInstanceTypes takes no more names at once
COUNTED_STATES = ("pending", "running")


@dataclass(frozen=True)
class _Use:
    """So many vCPUs that something takes of an instance type's bucket."""

    machine: str
    is_spot: bool
    vcpus: int
    stack: str


def read_aws_usage(
    needs: Sequence[QuotaNeed], declared: fleet.Fleet, create: ClientFactory | None = None
) -> Mapping[QuotaNeed, BucketUsage | str]:
    """Return the usage of each bucket."""
    create = create or build_client_factory(declared.aws)
    answers: dict[QuotaNeed, BucketUsage | str] = {}
    stack_tag = fleet.slugify(declared.stack)
    for region in sorted({need.region for need in needs}):
        regional = [need for need in needs if need.region == region]
        for need in regional:
            if need.bucket is None:
                answers[need] = f"no source names the quota bucket of {', '.join(need.machines)}"
        checked = [need for need in regional if need.bucket]
        if not checked:
            continue
        quotas = {need: _read_quota(region, str(need.bucket), create) for need in checked}
        uses = _list_uses(region, create)
        for need, (name, limit) in quotas.items():
            is_spot = need.purchase == "spot"
            counted = [use for use in uses if use.is_spot == is_spot and is_in_bucket(use.machine, name)]
            answers[need] = BucketUsage(
                limit=limit,
                used=sum(use.vcpus for use in counted),
                used_by_stack=sum(use.vcpus for use in counted if use.stack == stack_tag),
                source="Service Quotas; running instances and unused reservations",
                request=partial(build_aws_request, declared.aws, region, str(need.bucket)),
            )
    return answers


def _read_quota(region: str, code: str, create: ClientFactory) -> tuple[str, float]:
    """Return name and limit of a quota: the account's own, else AWS's default where it never changed."""
    name = f"aws {region} {code}"
    with translate_boto_errors("servicequotas:GetServiceQuota", name):
        client = create("service-quotas", region)
        try:
            answer = client.get_service_quota(ServiceCode=SERVICE, QuotaCode=code)
        except client.exceptions.NoSuchResourceException:
            answer = client.get_aws_default_service_quota(ServiceCode=SERVICE, QuotaCode=code)
        quota = answer["Quota"]
        return str(quota["QuotaName"]), float(quota["Value"])


def is_in_bucket(machine: str, quota_name: str) -> bool:
    """Return whether a quota's name, as Service Quotas spells it, covers an instance type.

    ``Running On-Demand G and VT instances``; ``All P4, P3 and P2 Spot Instance Requests``: a class is letters, with the
    generation where the quota is for some generations only.
    """
    kind, generation = re.match(r"([a-z]+)(\d*)", machine.lower()).groups()  # type: ignore[union-attr]
    classes = re.findall(r"\b[A-Z]{1,3}\d*\b", quota_name)
    return kind.upper() in classes or f"{kind}{generation}".upper() in classes


def _list_uses(region: str, create: ClientFactory) -> list[_Use]:
    instances = list(list_aws_instances(region, {"instance-state-name": list(COUNTED_STATES)}, create))
    reservations = _list_reservations(region, create)
    machines = {each.machine for each in instances} | {
        str(each.get("InstanceType", "")) for each in reservations
    }
    vcpus = _read_vcpus(region, sorted(machines - {""}), create)
    uses = [_use_of_instance(each, vcpus) for each in instances if each.lifecycle != "capacity-block"]
    for reservation in reservations:
        machine, free = str(reservation["InstanceType"]), int(reservation.get("AvailableInstanceCount") or 0)
        tags = {tag["Key"]: tag["Value"] for tag in reservation.get("Tags") or ()}
        uses.append(_Use(machine, False, free * vcpus.get(machine, 0), tags.get(STACK_TAG, "")))
    return uses


def _use_of_instance(instance: CloudInstance, vcpus: Mapping[str, int]) -> _Use:
    stack = instance.tags.get(STACK_TAG, "")
    return _Use(instance.machine, instance.lifecycle == "spot", vcpus.get(instance.machine, 0), stack)


def _list_reservations(region: str, create: ClientFactory) -> list[dict[str, Any]]:
    """Return active on-demand reservations; a Capacity Block is not one and counts against no on-demand limit."""
    name = f"aws {region} reservations"
    with translate_boto_errors("ec2:DescribeCapacityReservations", name):
        call = create("ec2", region).describe_capacity_reservations
        filters = [{"Name": "state", "Values": ["active"]}]
        items = iterate_page_items(call, "NextToken", "CapacityReservations", name, Filters=filters)
        return [item for item in take_bounded(items, name) if item.get("ReservationType") != "capacity-block"]


def _read_vcpus(region: str, machines: Sequence[str], create: ClientFactory) -> dict[str, int]:
    name = f"aws {region} instance types"
    vcpus: dict[str, int] = {}
    with translate_boto_errors("ec2:DescribeInstanceTypes", name):
        call = create("ec2", region).describe_instance_types
        for names in _in_parts(machines, TYPES_PER_CALL):
            for item in iterate_page_items(call, "NextToken", "InstanceTypes", name, InstanceTypes=names):
                vcpus[str(item["InstanceType"])] = int(item["VCpuInfo"]["DefaultVCpus"])
    return vcpus


def _in_parts(names: Sequence[str], size: int) -> Iterable[list[str]]:
    return (list(names[start : start + size]) for start in range(0, len(names), size))

"""What the Compute API refuses about groups, autoscalers, reservations, placement, disks and networks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.rehearsal.providers.constraints.gcp_instance import get_machine_record
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

REGION_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
GROUP = "gcp:compute/instanceGroupManager:InstanceGroupManager"
RESERVATION = "gcp:compute/reservation:Reservation"
_DOCS = "https://cloud.google.com/compute/docs"
_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_FLEX_SECONDS = (600, 7 * 24 * 3600)
_MAX_TARGET = {REGION_GROUP: 2_000, GROUP: 1_000}
_MTU = (1_300, 8_896)


@constrains(REGION_GROUP, source=f"{_DOCS}/instance-groups/regional-mig-distribution-shape: limitations")
def _shape_fits_redistribution(inputs: Inputs) -> Iterator[Problem]:
    shape = inputs.get("distributionPolicyTargetShape", "EVEN")
    redistribution = as_object(inputs.get("updatePolicy")).get("instanceRedistributionType", "PROACTIVE")
    if shape in ("ANY", "ANY_SINGLE_ZONE", "BALANCED") and redistribution != "NONE":
        yield "updatePolicy.instanceRedistributionType", f"invalid: shape {shape} needs NONE"
    zones = as_list(inputs.get("distributionPolicyZones"))
    update = as_object(inputs.get("updatePolicy"))
    for key in ("maxSurgeFixed", "maxUnavailableFixed"):
        value = as_number(update.get(key))
        if zones and value and 0 < value < len(zones):
            yield (
                f"updatePolicy.{key}",
                f"invalid: 0 or at least the number of zones ({len(zones)}), got {value:g}",
            )
    region = inputs.get("region")
    for index, zone in enumerate(zones):
        if is_known(zone) and is_known(region) and not str(zone).startswith(f"{region}-"):
            yield f"distributionPolicyZones[{index}]", f"invalid: {zone} is not a zone of {region}"


@constrains(REGION_GROUP, source=f"{_DOCS}/instance-groups: a regional group has at most 2,000 VMs")
def _region_group_size_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    yield from _check_target_size(inputs, _MAX_TARGET[REGION_GROUP])


@constrains(GROUP, source=f"{_DOCS}/instance-groups: a zonal group has at most 1,000 VMs")
def _group_size_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    yield from _check_target_size(inputs, _MAX_TARGET[GROUP])


def _check_target_size(inputs: Inputs, most: int) -> Iterator[Problem]:
    size = as_number(inputs.get("targetSize"))
    if size is not None and not 0 <= size <= most:
        yield "targetSize", f"invalid: 0 to {most}, got {size:g}"
    if len(as_list(inputs.get("versions"))) > 2:  # noqa: PLR2004 - canary updates
        yield "versions", "invalid: at most 2 versions"


@constrains(
    "gcp:compute/regionAutoscaler:RegionAutoscaler",
    "gcp:compute/autoscaler:Autoscaler",
    source=f"{_DOCS}/reference/rest/v1/autoscalers: minNumReplicas, maxNumReplicas",
)
def _autoscaler_bounds_are_in_order(inputs: Inputs) -> Iterator[Problem]:
    policy = as_object(inputs.get("autoscalingPolicy"))
    least, most = as_number(policy.get("minReplicas")), as_number(policy.get("maxReplicas"))
    if least is not None and most is not None and not 0 <= least <= most:
        yield "autoscalingPolicy.maxReplicas", f"invalid: minReplicas {least:g}, maxReplicas {most:g}"
    signals = ("cpuUtilization", "loadBalancingUtilization", "metrics", "scalingSchedules")
    if policy and not any(policy.get(key) for key in signals) and policy.get("mode") != "OFF":
        # Without a signal the API scales by CPU utilization of 0.6.
        return
    target = as_number(as_object(policy.get("cpuUtilization")).get("target"))
    if target is not None and not 0 < target <= 1:
        yield "autoscalingPolicy.cpuUtilization.target", f"invalid: above 0 to 1, got {target:g}"


@constrains(
    "gcp:compute/resizeRequest:ResizeRequest",
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
    source=f"{_DOCS}/instance-groups/create-resize-requests-mig: run duration of 10 minutes to 7 days",
)
def _resize_request_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    seconds = as_number(as_object(inputs.get("requestedRunDuration")).get("seconds"))
    if seconds is not None and not _FLEX_SECONDS[0] <= seconds <= _FLEX_SECONDS[1]:
        yield "requestedRunDuration.seconds", f"invalid: 600 to 604800, got {seconds:g}"
    size = as_number(inputs.get("resizeBy"))
    if size is not None and size < 1:
        yield "resizeBy", f"invalid: at least 1, got {size:g}"


@constrains(
    RESERVATION, source=f"{_DOCS}/instances/reservations-single-project; restrictions of each machine type"
)
def _reservation_is_possible(inputs: Inputs) -> Iterator[Problem]:
    specific = as_object(inputs.get("specificReservation"))
    properties = as_object(specific.get("instanceProperties"))
    machine, count = properties.get("machineType"), as_number(specific.get("count"))
    if count is not None and count < 1:
        yield "specificReservation.count", f"invalid: at least 1, got {count:g}"
    record = get_machine_record(machine)
    if "sold" in record and "reservation" not in record["sold"]:
        yield "specificReservation.instanceProperties.machineType", f"invalid: no reservation of {machine}"
    allowed, ssds = record.get("ssd"), len(as_list(properties.get("localSsds")))
    if allowed is not None and ssds not in allowed and not (len(allowed) == 1 and ssds == 0):
        yield (
            "specificReservation.instanceProperties.localSsds",
            f"invalid: {machine} takes {' or '.join(map(str, allowed))} local SSDs, got {ssds}",
        )
    for index, card in enumerate(map(as_object, as_list(properties.get("guestAccelerators")))):
        number = as_number(card.get("acceleratorCount"))
        if number and record.get("gpus") and number != record["gpus"]:
            path = f"specificReservation.instanceProperties.guestAccelerators[{index}].acceleratorCount"
            yield path, f"invalid: {machine} has {record['gpus']} GPUs, got {number:g}"


@constrains(
    RESERVATION,
    GROUP,
    "gcp:compute/disk:Disk",
    "gcp:compute/instance:Instance",
    source="names of zones: REGION-LETTER",
)
def _zone_is_a_zone(inputs: Inputs) -> Iterator[Problem]:
    zone = inputs.get("zone")
    if is_known(zone) and not _ZONE.fullmatch(str(zone).rpartition("/")[2]):
        yield "zone", f"Invalid value for field 'zone': {zone!r}"


@constrains(
    "gcp:compute/resourcePolicy:ResourcePolicy", source=f"{_DOCS}/instances/use-compact-placement-policies"
)
def _placement_policy_is_valid(inputs: Inputs) -> Iterator[Problem]:
    policy = as_object(inputs.get("groupPlacementPolicy"))
    distance, count = as_number(policy.get("maxDistance")), as_number(policy.get("vmCount"))
    if distance is not None and not 1 <= distance <= 3:  # noqa: PLR2004 - of the document
        yield "groupPlacementPolicy.maxDistance", f"invalid: 1 to 3, got {distance:g}"
    if distance is not None and policy.get("collocation") != "COLLOCATED":
        yield "groupPlacementPolicy.maxDistance", "invalid: needs collocation COLLOCATED"
    if count is not None and policy.get("collocation") == "COLLOCATED" and count > 1_500:  # noqa: PLR2004
        yield "groupPlacementPolicy.vmCount", f"invalid: at most 1500 VMs, got {count:g}"
    kinds = (
        "groupPlacementPolicy",
        "workloadPolicy",
        "snapshotSchedulePolicy",
        "instanceSchedulePolicy",
        "diskConsistencyGroupPolicy",
    )
    present = [key for key in kinds if key in inputs]
    if len(present) > 1:
        yield present[1], f"conflicts with {present[0]}"


@constrains("gcp:compute/network:Network", source="https://cloud.google.com/vpc/docs/mtu")
def _mtu_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    mtu = as_number(inputs.get("mtu"))
    if mtu is not None and not _MTU[0] <= mtu <= _MTU[1]:
        yield "mtu", f"invalid: {_MTU[0]} to {_MTU[1]}, got {mtu:g}"
    if "networkProfile" in inputs and inputs.get("autoCreateSubnetworks", True):
        yield "autoCreateSubnetworks", "invalid: a network with a profile is a custom mode network"


@constrains("gcp:compute/disk:Disk", source=f"{_DOCS}/disks: sizes of disk types")
def _disk_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    size, kind = as_number(inputs.get("size")), str(inputs.get("type") or "pd-standard").rpartition("/")[2]
    least = {
        "hyperdisk-balanced": 4,
        "hyperdisk-extreme": 64,
        "hyperdisk-throughput": 2_048,
        "pd-extreme": 500,
    }.get(kind, 1)
    if size is not None and not least <= size <= 65_536:  # noqa: PLR2004 - 64 TiB
        yield "size", f"invalid: {kind} has {least} to 65536 GB, got {size:g}"
    for key, needs in (
        ("provisionedIops", ("hyperdisk", "pd-extreme")),
        ("provisionedThroughput", ("hyperdisk",)),
    ):
        if key in inputs and not kind.startswith(needs):
            yield key, f"invalid: {kind} has no provisioned performance"

"""What the Compute API refuses about groups, autoscalers, reservations, placement, disks and networks."""

from __future__ import annotations

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
RESERVATION = "gcp:compute/reservation:Reservation"
_DOCS = "https://cloud.google.com/compute/docs"


@constrains(REGION_GROUP, source=f"{_DOCS}/instance-groups/regional-mig-distribution-shape: limitations")
def _zones_fit_group(inputs: Inputs) -> Iterator[Problem]:
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
    target = as_number(as_object(policy.get("cpuUtilization")).get("target"))
    if target is not None and not 0 < target <= 1:
        yield "autoscalingPolicy.cpuUtilization.target", f"invalid: above 0 to 1, got {target:g}"


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
    "gcp:compute/resourcePolicy:ResourcePolicy", source=f"{_DOCS}/instances/use-compact-placement-policies"
)
def _policy_is_of_one_kind(inputs: Inputs) -> Iterator[Problem]:
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

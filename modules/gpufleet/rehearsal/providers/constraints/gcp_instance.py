"""What the Compute API refuses about instances and instance templates."""

from __future__ import annotations

import re
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

INSTANCE = "gcp:compute/instance:Instance"
TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
REGION_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
ALL = (INSTANCE, TEMPLATE, REGION_TEMPLATE)
_DOCS = "https://cloud.google.com/compute/docs"
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GPU_FAMILIES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")


@cache
def _records() -> dict[str, Any]:
    records: dict[str, Any] = read_packaged_json("gpufleet.rehearsal.providers", "data/machines/gcp.json")
    return records


def get_machine_record(machine_type: Any) -> dict[str, Any]:
    """Return what is known of a machine type; an exact row wins over a prefix."""
    name = str(machine_type).rpartition("/")[2] if is_known(machine_type) else ""
    machines = _records()["machines"]
    prefix = next((row for row in machines if row.endswith("*") and name.startswith(row[:-1])), "")
    found: dict[str, Any] = machines.get(name) or machines.get(prefix, {})
    return found


def get_scheduling(inputs: Inputs) -> Inputs:
    return as_object(inputs.get("scheduling"))


def get_model(inputs: Inputs) -> str:
    scheduling = get_scheduling(inputs)
    if "provisioningModel" in scheduling:
        return str(scheduling["provisioningModel"])
    return "SPOT" if scheduling.get("preemptible") else "STANDARD"


def get_affinity(inputs: Inputs) -> str:
    return str(as_object(inputs.get("reservationAffinity")).get("type") or "ANY_RESERVATION")


def _has_accelerator(inputs: Inputs) -> bool:
    return bool(inputs.get("guestAccelerators")) or str(inputs.get("machineType")).startswith(_GPU_FAMILIES)


@constrains(*ALL, source=f"{_DOCS}/gpus: VMs with GPUs cannot live migrate")
def _accelerators_stop_for_maintenance(inputs: Inputs) -> Iterator[Problem]:
    if _has_accelerator(inputs) and get_scheduling(inputs).get("onHostMaintenance") != "TERMINATE":
        yield "scheduling.onHostMaintenance", "instances with accelerators can't migrate live; use TERMINATE"


@constrains(*ALL, source=f"{_DOCS}/instances/create-use-spot")
def _spot_is_complete(inputs: Inputs) -> Iterator[Problem]:
    scheduling, model = get_scheduling(inputs), get_model(inputs)
    if model == "SPOT":
        if not scheduling.get("preemptible") or scheduling.get("automaticRestart", True):
            yield "scheduling", "SPOT needs preemptible = true and automaticRestart = false"
        if get_affinity(inputs) == "SPECIFIC_RESERVATION":
            yield "reservationAffinity", "spot instances can't run in a reservation"
    elif scheduling.get("preemptible"):
        yield "scheduling.preemptible", f"invalid: preemptible goes with provisioning model SPOT, not {model}"
    action, run = scheduling.get("instanceTerminationAction"), as_object(scheduling.get("maxRunDuration"))
    if action and model == "STANDARD" and not run and "terminationTime" not in scheduling:
        yield (
            "scheduling.instanceTerminationAction",
            "invalid: only for Spot, Flex-start or a limited run time",
        )


@constrains(*ALL, source=f"{_DOCS}/instances/consumption-options; accelerator-optimized-machines")
def _machine_is_sold_this_way(inputs: Inputs) -> Iterator[Problem]:
    sold = get_machine_record(inputs.get("machineType")).get("sold")
    if sold is None:
        return
    model = {"SPOT": "spot", "FLEX_START": "flex", "RESERVATION_BOUND": "reservation"}.get(
        get_model(inputs), "standard"
    )
    if model == "standard" and get_affinity(inputs) == "SPECIFIC_RESERVATION":
        model = "reservation"
    if model not in sold:
        yield (
            "machineType",
            f"invalid: {inputs['machineType']} is not sold as {model}; sold as {', '.join(sold)}",
        )


def _boot_disk_kinds(inputs: Inputs) -> Iterator[tuple[str, Any]]:
    boot = as_object(as_object(inputs.get("bootDisk")).get("initializeParams"))
    if "bootDisk" in inputs:
        yield "bootDisk.initializeParams.type", boot.get("type", "pd-standard")
    for index, disk in enumerate(map(as_object, as_list(inputs.get("disks")))):
        if disk.get("boot") or (index == 0 and "boot" not in disk):
            yield f"disks[{index}].diskType", disk.get("diskType", "pd-standard")


@constrains(*ALL, source=f"{_DOCS}/accelerator-optimized-machines: supported disk types; disks/hyperdisks")
def _boot_disk_fits_machine(inputs: Inputs) -> Iterator[Problem]:
    record = get_machine_record(inputs.get("machineType"))
    for path, kind in _boot_disk_kinds(inputs):
        if is_known(kind) and record.get("hyperdisk") and not str(kind).startswith("hyperdisk-"):
            yield (
                path,
                f"[{kind}] features are not compatible for creating instance: {inputs['machineType']} needs Hyperdisk",
            )
        if str(kind) in ("hyperdisk-throughput", "hyperdisk-ml", "local-ssd"):
            yield path, f"invalid: {kind} cannot be a boot disk"


def _count_local_ssds(inputs: Inputs) -> int:
    templated = [
        disk for disk in map(as_object, as_list(inputs.get("disks"))) if disk.get("diskType") == "local-ssd"
    ]
    return len(as_list(inputs.get("scratchDisks"))) + len(templated)


@constrains(*ALL, source=f"{_DOCS}/disks/local-ssd: number of Local SSD disks by machine type")
def _local_ssd_count_fits_machine(inputs: Inputs) -> Iterator[Problem]:
    allowed = get_machine_record(inputs.get("machineType")).get("ssd")
    count = _count_local_ssds(inputs)
    if allowed is None:
        return
    is_fixed = len(allowed) == 1 and allowed[0] > 0
    if count not in allowed and not (is_fixed and count == 0):  # Google attaches a fixed number by itself
        key = "scratchDisks" if "scratchDisks" in inputs else "disks"
        yield (
            key,
            f"invalid: {inputs['machineType']} takes {' or '.join(map(str, allowed))} local SSDs, got {count}",
        )


@constrains(
    *ALL, source=f"{_DOCS}/gpus/about-gpus: N1 machine types; attached GPUs of other families are fixed"
)
def _accelerators_fit_machine(inputs: Inputs) -> Iterator[Problem]:
    machine, record = str(inputs.get("machineType") or ""), get_machine_record(inputs.get("machineType"))
    kinds = _records()["accelerators"]
    for index, card in enumerate(map(as_object, as_list(inputs.get("guestAccelerators")))):
        name = str(card.get("type") or "").rpartition("/")[2].removesuffix("-vws")
        count, path = as_number(card.get("count")), f"guestAccelerators[{index}]"
        if not is_known(inputs.get("machineType")) or not is_known(card.get("type")) or not count:
            continue
        if machine.startswith(_GPU_FAMILIES):
            if "gpus" in record and count != record["gpus"]:
                yield f"{path}.count", f"invalid: {machine} has {record['gpus']} GPUs, got {count:g}"
            if "card" in record and name != record["card"]:
                yield f"{path}.type", f"invalid: {machine} has {record['card']}, not {name}"
        elif not machine.startswith(("n1-", "custom-")):
            yield path, f"invalid: GPUs can be attached to N1 machine types only, not to {machine}"
        elif name in kinds and count not in kinds[name]["counts"]:
            choices = ", ".join(map(str, kinds[name]["counts"]))
            yield f"{path}.count", f"invalid: number of {name}: {choices}; got {count:g}"
        elif name in kinds and (vcpus := re.search(r"-(\d+)$", machine)):
            most = kinds[name]["vcpus"][kinds[name]["counts"].index(int(count))]
            if int(vcpus[1]) > most:
                yield path, f"invalid: with {count:g} {name} a machine has at most {most} vCPUs"


@constrains(INSTANCE, source=f"{_DOCS}/gpus/gpu-regions-zones")
def _machine_is_in_zone(inputs: Inputs) -> Iterator[Problem]:
    zones = get_machine_record(inputs.get("machineType")).get("zones", {})
    zone = str(inputs.get("zone") or "").rpartition("/")[2]
    letters = zones.get(zone.rpartition("-")[0])
    if is_known(inputs.get("zone")) and letters is not None and zone[-1] not in letters:
        yield "zone", f"Machine type with name '{inputs['machineType']}' does not exist in zone '{zone}'"


@constrains(*ALL, source=f"{_DOCS}/labeling-resources: requirements for labels")
def _labels_are_valid(inputs: Inputs) -> Iterator[Problem]:
    for key, value in as_object(inputs.get("labels")).items():
        if is_known(value) and not (_LABEL.fullmatch(key) and _LABEL.fullmatch(str(value))):
            yield f"labels.{key}", f"label {key}={value}: only a-z, 0-9, _ and -, at most 63 characters"


@constrains(
    *ALL,
    source="google.com/networks/vpc: multiple network interfaces; gpus/gpudirect; vpc/docs/rdma-network-profiles",
)
def _interfaces_are_in_distinct_networks(inputs: Inputs) -> Iterator[Problem]:
    interfaces = [as_object(item) for item in as_list(inputs.get("networkInterfaces"))]
    subnets = [item.get("subnetwork") for item in interfaces]
    for index, (item, subnet) in enumerate(zip(interfaces, subnets, strict=True)):
        if is_known(subnet) and item.get("nicType") != "MRDMA" and subnet in subnets[:index]:
            path = f"networkInterfaces[{index}].subnetwork"
            yield path, "invalid: networks must be distinct for NICs attached to a VM"


@constrains(
    *ALL, "gcp:compute/disk:Disk", "gcp:compute/network:Network", source="RFC 1035 names of Compute resources"
)
def _name_is_valid(inputs: Inputs) -> Iterator[Problem]:
    name = inputs.get("name")
    if is_known(name) and not _NAME.fullmatch(str(name)):
        yield (
            "name",
            f"Invalid value for field 'resource.name': {str(name)[:70]!r}; a-z, 0-9 and -, at most 63, from a letter",
        )

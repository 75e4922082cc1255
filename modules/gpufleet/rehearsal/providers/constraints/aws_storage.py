"""What EC2 refuses about EBS volumes, wherever they are declared."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.rehearsal.providers.constraints.aws_launch import INSTANCE, TEMPLATE
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
)

VOLUME = "aws:ebs/volume:Volume"
_TYPES = "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html"
# EC2 API, CreateVolume (botocore 1.44.5).
# Smallest and largest size in GiB, and largest IOPS and MiB/s that may be provisioned; 0: cannot be provisioned.
VOLUME_LIMITS: dict[str, tuple[int, int, int, int]] = {
    "gp3": (1, 65_536, 80_000, 2_000),
    "gp2": (1, 16_384, 0, 0),
    "io1": (4, 16_384, 64_000, 0),
    "io2": (4, 65_536, 256_000, 0),
    "st1": (125, 16_384, 0, 0),
    "sc1": (125, 16_384, 0, 0),
    "standard": (1, 1_024, 0, 0),
}


@constrains(VOLUME, source=_TYPES)
def _volume_is_in_range(inputs: Inputs) -> Iterator[Problem]:
    yield from _check_volume("", inputs.get("type"), inputs.get("size"), inputs)
    if "size" not in inputs and "snapshotId" not in inputs:
        yield "size", "MissingParameter: size or snapshotId must be set"


@constrains(INSTANCE, source=_TYPES)
def _instance_volumes_are_in_range(inputs: Inputs) -> Iterator[Problem]:
    root = as_object(inputs.get("rootBlockDevice"))
    yield from _check_volume("rootBlockDevice.", root.get("volumeType"), root.get("volumeSize"), root)
    if root.get("volumeType") in ("st1", "sc1"):
        yield (
            "rootBlockDevice.volumeType",
            f"InvalidParameterValue: {root['volumeType']} cannot be a boot volume",
        )
    for index, device in enumerate(as_list(inputs.get("ebsBlockDevices"))):
        path, disk = f"ebsBlockDevices[{index}].", as_object(device)
        yield from _check_volume(path, disk.get("volumeType"), disk.get("volumeSize"), disk)


@constrains(TEMPLATE, source=_TYPES)
def _template_volumes_are_in_range(inputs: Inputs) -> Iterator[Problem]:
    for index, device in enumerate(as_list(inputs.get("blockDeviceMappings"))):
        disk = as_object(as_object(device).get("ebs"))
        path = f"blockDeviceMappings[{index}].ebs."
        yield from _check_volume(path, disk.get("volumeType"), disk.get("volumeSize"), disk)


def _check_volume(prefix: str, kind: object, size: object, values: Inputs) -> Iterator[Problem]:
    kind = str(kind or "gp2")
    if kind not in VOLUME_LIMITS:
        return
    smallest, largest, most_iops, most_throughput = VOLUME_LIMITS[kind]
    gib, iops, throughput = (
        as_number(size),
        as_number(values.get("iops")),
        as_number(values.get("throughput")),
    )
    if gib is not None and not smallest <= gib <= largest:
        yield (
            f"{prefix}volumeSize",
            f"InvalidParameterValue: a {kind} volume has {smallest} to {largest} GiB, got {gib:g}",
        )
    if kind in ("io1", "io2") and not iops and "iops" not in values:
        yield f"{prefix}iops", f"MissingParameter: {kind} needs iops"
    for key, value, most in (("iops", iops, most_iops), ("throughput", throughput, most_throughput)):
        if value and value > most:
            limit = f"at most {most}" if most else "none may be set"
            yield f"{prefix}{key}", f"InvalidParameterCombination: {key} of {kind}: {limit}, got {value:g}"

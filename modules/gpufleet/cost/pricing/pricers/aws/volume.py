"""EBS volumes: those of their own, and those that instances bring with them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.image_disk import ImageDisk, find_image_disk
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

GP3_BASELINE = {"iops": Decimal(3000), "throughput": Decimal(125)}  # included in a gp3 volume of any size
# The IOPS of one io2 volume that each tier ends with, the cheaper tiers last (AWS's EBS pricing).
IO2_TIERS = (("", Decimal(32000)), (":tier2", Decimal(64000)), (":tier3", Decimal("Infinity")))
TYPES_WITHOUT_IOPS = ("gp2", "st1", "sc1", "standard")  # their speed comes with their size
TYPES_THAT_REQUIRE_IOPS = ("io1", "io2")
DEFAULT_TYPE = "gp2"  # what EC2 makes of a volume without a type
SIZE, TYPE = "volumeSize or size", "volumeType or type"  # of a block device, of a volume
MAPPINGS = "blockDeviceMappings"  # of a launch template; others list their root device and the further ones


@pricer("aws:ebs/volume:Volume")
def price_ebs_volume(volume: Reader) -> Parts:
    """Yield a volume of its own, billed for as long as it exists."""
    disk = volume.all_month().of("disk")
    if not disk.has(
        "size"
    ):  # the provider requires it or a snapshot: a look-up has no answer without the cloud
        is_known = disk.has("snapshotId")
        raise disk.refuse(f"size is {'set by the snapshot' if is_known else 'not known until deployment'}")
    inputs = {**volume.inputs, "type": volume.find_text("type") or DEFAULT_TYPE}
    yield from list_volume(replace(disk, inputs=inputs), "disk")


def list_mapped_volumes(template: Reader, image: str) -> Parts:
    """Yield the volumes of a launch template: its root device is the first, and ``image`` sets what it leaves out."""
    with template.of("disk:root") as root:
        mappings = root.entries(MAPPINGS, "its volumes are")
        devices = [mapping.inside("ebs") for mapping in mappings if mapping.has("ebs")]
        for index, device in enumerate(devices or [replace(root, inputs={})]):
            yield from list_volume(
                device, f"disk:{index}" if index else "disk:root", None if index else image
            )


def list_attached_volumes(instance: Reader, root_device: str, image: str) -> Parts:
    """Yield the volumes of an instance or a launch configuration, with the path of its root device.

    ``image`` is what is known of its image, which sets what the root device leaves out.
    """
    yield from list_volume(instance.inside(root_device), "disk:root", image)
    with instance.of("disk:1") as further:
        for index, device in enumerate(
            further.entries("ebsBlockDevices", "its further volumes are"), start=1
        ):
            yield from list_volume(device, f"disk:{index}")


def list_volume(volume: Reader, name: str, image: str | None = None) -> Parts:
    """Yield a volume and the speed that is bought in addition to its size.

    ``image`` is what is known of the image that sets what is not declared; None of a volume that none sets.
    """
    with volume.of(name) as disk:
        if image is not None and not disk.has("snapshotId"):
            yield _make_root_volume(disk, find_image_disk("aws", image))
        elif not disk.has(SIZE):
            raise disk.refuse("size is not declared: its snapshot sets it")
        else:
            yield disk.part(f"ebs:{_find_type(disk)}", size=disk.number(SIZE, "size"))
    for unit in GP3_BASELINE:
        with volume.of(f"{name}:{unit}") as speed:
            yield from _list_speed(speed, name, unit)


def _make_root_volume(disk: Reader, of_image: ImageDisk) -> CostComponent | None:
    """Return a root volume with the size and type of its image where it declares none."""
    kinds = (disk.text(TYPE, "volume type"),) if disk.has(TYPE) else of_image.types
    if disk.has(SIZE):
        part = disk.part(f"ebs:{kinds[0]}", size=disk.number(SIZE, "size"))
    else:
        part = disk.part(f"ebs:{kinds[0]}", of_image.sizes, note=of_image.note)
    return part and replace(part, items=tuple(f"ebs:{kind}" for kind in kinds))


def _find_type(volume: Reader) -> str:
    if not volume.has(TYPE):
        raise volume.refuse("volume type is set by the image")
    return volume.text(TYPE, "volume type")


def _list_speed(speed: Reader, name: str, unit: str) -> Parts:
    if speed.find_text(TYPE) in TYPES_WITHOUT_IOPS:
        return
    if not speed.has(unit):
        if unit == "iops" and speed.find_text(TYPE) in TYPES_THAT_REQUIRE_IOPS:
            raise speed.refuse("provisioned iops is not set")
        return
    kind, amount = _find_type(speed), speed.number(unit, f"provisioned {unit}")
    if kind == "io2" and unit == "iops":
        included = Decimal(0)
        for suffix, last in IO2_TIERS:
            in_tier = max(min(amount, last) - included, Decimal(0))
            yield speed.of(f"{name}:{unit}{suffix}").part(f"ebs:io2:iops{suffix}", size=in_tier)
            included = last
    else:
        included = GP3_BASELINE[unit] if kind == "gp3" else Decimal(0)
        yield speed.part(f"ebs:{kind}:{unit}", size=max(amount - included, Decimal(0)))

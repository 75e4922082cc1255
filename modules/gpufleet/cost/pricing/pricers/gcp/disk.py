"""Persistent disks and local SSDs: those of their own, and those of machines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.image_disk import find_image_disk
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader, Unpriced

DEFAULT_TYPE = "pd-standard"  # what Compute Engine makes of a disk without a type
# What types bill besides their size, and how much of it is free (cloud.google.com/compute/disks-image-pricing).
BILLED_SPEED = {
    "pd-extreme": {"iops": Decimal(0)},
    "hyperdisk-extreme": {"iops": Decimal(0)},
    "hyperdisk-balanced": {"iops": Decimal(3000), "throughput": Decimal(140)},
    "hyperdisk-balanced-high-availability": {"iops": Decimal(3000), "throughput": Decimal(140)},
    "hyperdisk-throughput": {"throughput": Decimal(0)},
    "hyperdisk-ml": {"throughput": Decimal(0)},
}
IMAGE, SNAPSHOT = "image or sourceImage", "snapshot or sourceSnapshot or sourceDisk or source"
LOCAL_SSD = "local-ssd"  # its name in the price list
LOCAL_SSD_GIB = Decimal(375)  # the one size of a local SSD
SCRATCH = "SCRATCH"  # the type of a template's local SSD
# The inputs of node pools that count local SSDs, and the interface of those (the provider's documentation).
NODE_DISK_INTERFACES = {
    "localSsdCount": "SCSI",
    "ephemeralStorageLocalSsdConfig.localSsdCount": "NVME",
    "localNvmeSsdBlockConfig.localSsdCount": "NVME",
}
# Types that come with local SSDs: those whose price here includes them (gcosts-pricing.yml, which prices the
# entire machine), and those whose source says no-local-ssd (SkyPilot's catalogue; see the notes of
# tools/price_lists/prices.csv).
LOCAL_SSDS_IN_PRICE = ("a2-ultragpu-", "a3-highgpu-")
LOCAL_SSDS_NOT_IN_PRICE = ("a3-megagpu-", "a3-ultragpu-")


@pricer("gcp:compute/disk:Disk")
def price_persistent_disk(disk: Reader) -> Parts:
    """Yield a disk of its own, billed for as long as it exists."""
    return list_persistent_disk(disk.all_month(), "disk")


@pricer("gcp:compute/regionDisk:RegionDisk")
def price_regional_persistent_disk(disk: Reader) -> Parts:
    """Yield a disk that is replicated to two zones, which has a price of its own."""
    return list_persistent_disk(disk.all_month(), "disk", prefix="regional-")


def list_instance_disks(instance: Reader, machine_type: str) -> Parts:
    """Yield the boot disk and the local SSDs of an instance; an existing disk bills where it is declared."""
    with instance.of("disk:boot") as disk:
        boot = disk.inside("bootDisk", "its boot disk")
        if not boot.has("source"):
            yield from list_persistent_disk(boot.inside("initializeParams"), "disk:boot")
    yield from list_local_ssds(
        instance, machine_type, lambda disks: len(disks.entries("scratchDisks", "its local disks are"))
    )


def list_template_disks(template: Reader, machine_type: str) -> Parts:
    """Yield the disks of an instance template."""
    with template.of("disk:boot") as boot:
        for index, disk in enumerate(boot.entries("disks", "its disks are")):
            if not _is_scratch(disk):
                name = f"disk:{index}" if index else "disk:boot"
                yield from list_persistent_disk(disk, name, size="diskSizeGb", kind="diskType")
    yield from list_local_ssds(
        template, machine_type, lambda disks: sum(map(_is_scratch, disks.entries("disks", "its disks are")))
    )


def list_persistent_disk(
    disk: Reader, name: str, *, size: str = "size", kind: str = "type", prefix: str = ""
) -> Parts:
    """Yield a disk by its type and size, and the speed that is bought in addition.

    ``size`` and ``kind`` are the inputs with the GiB and the type; ``prefix`` is of the name in the price list.
    """
    with disk.of(name) as part:
        if not part.has(size):
            yield _make_image_disk(part, kind, prefix)
        else:
            yield part.part(f"{prefix}{_find_type(part, kind)}", size=part.number(size, "size"))
    known_type = last_url_segment(text_if_known(disk.find_text(kind)) or DEFAULT_TYPE)
    for unit, included in BILLED_SPEED.get(known_type, {}).items():
        with disk.of(f"{name}:{unit}") as speed:
            path = f"provisioned{unit.capitalize()}"
            if not speed.has(path) and not included:
                raise speed.refuse(f"its {unit}, which bills, is chosen by Compute Engine")
            amount = speed.number(path, f"provisioned {unit}", included)
            yield speed.part(f"{known_type}:{unit}", size=max(amount - included, ZERO))


def _make_image_disk(disk: Reader, kind: str, prefix: str) -> CostComponent | None:
    """Return a disk with the size of its image."""
    if disk.has(SNAPSHOT) or not (disk.has(IMAGE) or disk.component == "disk:boot"):
        raise disk.refuse("size is not declared: its snapshot sets it, or Compute Engine")
    image = find_image_disk("gcp", text_if_known(disk.find_text(IMAGE)) or "")
    return disk.part(f"{prefix}{_find_type(disk, kind)}", image.sizes, note=image.note)


def _find_type(disk: Reader, kind: str) -> str:
    return last_url_segment(disk.text(kind, "disk type", DEFAULT_TYPE)) or DEFAULT_TYPE


def list_local_ssds(
    machine: Reader, machine_type: str, count_disks: Callable[[Reader], Decimal | int]
) -> Parts:
    """Yield local SSDs that are not in the machine's price; those that come with the type have no price here."""
    if machine_type.startswith(LOCAL_SSDS_IN_PRICE):
        return
    with machine.of("disk:local0") as first:
        number = int(count_disks(first))
        if not number and machine_type.startswith(LOCAL_SSDS_NOT_IN_PRICE):
            raise first.refuse(f"the local SSDs that {machine_type} comes with are not in its price here")
        for index in range(number):
            yield machine.of(f"disk:local{index}").part(LOCAL_SSD, size=LOCAL_SSD_GIB)


def find_local_ssds_to_match(machine: Reader, machine_type: str) -> list[str]:
    """Return the interfaces of the local SSDs that a reservation must match: none if they come with the type."""
    if machine_type.startswith(LOCAL_SSDS_IN_PRICE + LOCAL_SSDS_NOT_IN_PRICE):
        return []
    disks: list[Reader] = []
    for path in ("scratchDisks", "localSsds", "disks"):
        with suppress(Unpriced):  # its disks are listed without a price
            disks += [each for each in machine.entries(path) if path != "disks" or _is_scratch(each)]
    interfaces = [str(disk.find_text("interface") or "SCSI").upper() for disk in disks]
    for path, interface in NODE_DISK_INTERFACES.items():
        number = machine.find_number(path)
        interfaces += [interface] * (int(number) if isinstance(number, Decimal) else 0)
    return sorted(interfaces)


def _is_scratch(disk: Reader) -> bool:
    return disk.find_text("type") == SCRATCH

"""Managed disks: those of their own, and those of machines."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.image_disk import ImageDisk, find_image_disk
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# Managed disks bill by tier, the smallest that fits the size (learn.microsoft.com, "Azure managed disk types").
TIERS = {4: 1, 8: 2, 16: 3, 32: 4, 64: 6, 128: 10, 256: 15, 512: 20, 1024: 30, 2048: 40, 4096: 50, 8192: 60}
TIERS |= {16384: 70, 32767: 80}
SMALLEST_HARD_DISK_GIB = Decimal(32)
FAMILIES = {
    "Premium_LRS": "premium-ssd-p",
    "StandardSSD_LRS": "standard-ssd-e",
    "Standard_LRS": "standard-hdd-s",
}
SIZE = "diskSizeGB or diskSizeGb"
EXISTING_DISK = "Attach"  # the createOption of a disk that is a resource of its own


@pricer("azure-native:compute:Disk", "azure:compute/managedDisk:ManagedDisk")
def price_managed_disk(disk: Reader) -> Parts:
    """Yield a disk of its own, billed for as long as it exists."""
    with disk.all_month().of("disk") as part:
        yield _make_disk(part, "sku.name or storageAccountType", "tier")


def list_attached_disks(machine: Reader, image: str) -> Parts:
    """Yield the disks of a machine or of a machine profile, the system's first.

    ``image`` is what is known of the image, which sets the size of the system's disk where none is declared.
    """
    with machine.of("disk:os") as part:
        yield _make_attached_disk(
            part.inside("storageProfile.osDisk or osDisk or storageOsDisk", "its disks are"), image
        )
    with machine.of("disk:1") as part:
        disks = part.entries("storageProfile.dataDisks or dataDisks", "its data disks are")
        disks += part.entries("storageDataDisks", "its data disks are")
        for index, disk in enumerate(disks, start=1):
            with disk.of(f"disk:{index}") as data_disk:
                yield _make_attached_disk(data_disk)


def managed_disk_part(sku: str, size_gib: Decimal) -> str | None:
    """Return the catalogue's part: the smallest tier that fits the size; None for a type without a price."""
    return FAMILIES[sku] + managed_disk_tier_number(size_gib, sku) if sku in FAMILIES else None


def managed_disk_tier_number(size_gib: Decimal, sku: str = "") -> str:
    """Return the number of the smallest tier that fits a disk of this size; hard disks begin with 32 GiB."""
    if sku == "Standard_LRS":
        size_gib = max(size_gib, SMALLEST_HARD_DISK_GIB)
    return str(next((number for capacity, number in TIERS.items() if size_gib <= capacity), TIERS[32767]))


def _make_attached_disk(disk: Reader, image: str | None = None) -> CostComponent | None:
    """Return a disk of a machine: an ephemeral one is part of it, an attached one bills where it is declared."""
    is_ephemeral = isinstance(disk.inside("diffDiskSettings").inputs, dict)
    if is_ephemeral or disk.find_text("createOption") == EXISTING_DISK:
        return None
    sku_path = "managedDisk.storageAccountType or storageAccountType or managedDiskType"
    if image is not None and not disk.has(SIZE):
        return _make_image_disk(disk, disk.text(sku_path, "disk type"), find_image_disk("azure", image))
    return _make_disk(disk, sku_path)


def _make_image_disk(disk: Reader, sku: str, of_image: ImageDisk) -> CostComponent | None:
    """Return a system's disk: of the tier that fits its image, in the range of tiers where that is not known."""
    items = [managed_disk_part(sku, gib) for gib in (of_image.gib, of_image.most_gib)]
    if items[0] is None:
        raise disk.refuse(f"no price for disk type {sku}")
    part = disk.part(items[0], note=of_image.note)
    return part and replace(part, items=tuple(dict.fromkeys(filter(None, items))))


def _make_disk(disk: Reader, sku_path: str, tier_path: str = "") -> CostComponent | None:
    """Return a disk; one with a performance tier bills as a disk of that tier (Microsoft's page on their tiers)."""
    if not disk.has(SIZE):
        raise disk.refuse("size is not declared: its snapshot sets it")
    gib, sku = disk.number(SIZE, "size"), disk.text(sku_path, "disk type")
    item = managed_disk_part(sku, gib)
    if item is None:
        raise disk.refuse(f"no price for disk type {sku}")
    if tier_path and disk.has(tier_path):
        item = f"{FAMILIES[sku][:-1]}{disk.text(tier_path, 'performance tier').lower()}"
    return disk.part(item)

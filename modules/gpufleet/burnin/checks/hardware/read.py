"""Compare the hardware that a node's kernel lists with what the inventory declares."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.burnin.checks.hardware.fabric import compare_fabric, compare_ports_with_history
from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    count_missing,
    drop_missing_metrics,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.expected_hardware import VENDORS, parse_pci_device
from gpufleet.burnin.site_card import SiteCards, get_site_cards
from gpufleet.drivers import PciDevice

BYTES_PER_SECTOR, BYTES_PER_GIB = 512, 2**30
ETHERNET = "1"  # ARPHRD_ETHER, include/uapi/linux/if_arp.h
SAME_SIZE = (0.9, 1.1)  # of the declared size, as the threshold of drive_share has it


def read_record(raw: Raw) -> CheckReadings:
    """Count missing and wrong GPUs and fabric adapters, and size the largest drive; only what is declared."""
    if not isinstance(raw.get("devices"), list) or not isinstance(raw.get("drives"), list):
        return CheckReadings(unreadable="the record contains no list of devices and drives")
    devices = [parse_pci_device(mapping_or_empty(entry)) for entry in raw["devices"]]
    drives = [mapping_or_empty(entry) for entry in raw["drives"]]
    cards = get_site_cards(raw)
    gpus = [device for device in devices if not is_integrated(device, cards)]
    fabric, history = compare_fabric(raw), compare_ports_with_history(raw)
    metrics: dict[str, float | None] = {
        "gpus": float(len(gpus)),
        "wrong_models": count_wrong_models(gpus, raw),
        **fabric.metrics,
        **history.metrics,
        "drive_share": compute_drive_share(drives, find_expected_drive_gib(raw)),
        "drives_missing": count_missing_drives(raw, drives),
        "interfaces_missing": count_missing_interfaces(raw),
        "mtu_missing": count_missing_mtu(raw),
    }
    for name, vendor in VENDORS.items():
        present = sum(device.vendor == vendor for device in gpus)
        metrics[f"{name.removeprefix('expect_')}_missing"] = count_missing(
            to_finite_number(raw.get(name)), float(present)
        )
    return CheckReadings(
        drop_missing_metrics(**metrics),
        float(len(gpus)),
        "GPUs",
        details=fabric.details
        | history.details
        | list_present_numbers(raw, metrics)
        | {"mtu_missing": describe_mtus(raw)},
    )


def list_present_numbers(raw: Raw, metrics: Mapping[str, float | None]) -> dict[str, str]:
    """Return how many of the declared parts are there, such as "7 of 8", by the metric of the missing ones."""
    details = {}
    for part in ("gpus", "amd_gpus", "drives", "interfaces"):
        declared, missing = to_finite_number(raw.get(f"expect_{part}")), metrics.get(f"{part}_missing")
        if declared and missing:
            details[f"{part}_missing"] = f"{declared - missing:g} of {declared:g}"
    return details


def is_integrated(device: PciDevice, cards: SiteCards) -> bool:
    """Return whether a GPU is part of the processor."""
    card = cards.find(device)
    return card is not None and card.market == "integrated"


def count_wrong_models(gpus: list[PciDevice], raw: Raw) -> float | None:
    """Return in how many places of a declared GPU there is another model.

    GPUs beyond the declared number may be anything. A PCI id without an entry in the catalogue counts as declared.
    """
    models = {name for name in str(raw.get("expect_gpu_models") or "").split("; ") if name}
    if not models:
        return None
    declared = sum(to_finite_number(raw.get(name)) or 0.0 for name in VENDORS)
    site_cards = get_site_cards(raw)
    cards = [site_cards.find(device) for device in gpus]
    others = sum(
        card is not None and bool(card.catalogue) and not models & {*card.catalogue} for card in cards
    )
    return min(float(others), max(0.0, declared - (len(cards) - others)))


def find_expected_drive_gib(raw: Raw) -> float | None:
    """Return the declared size of a drive; of rehearsed hosts, only blades have a fake one."""
    has_no_fake_drive = raw.get("root", "/sys") != "/sys" and not raw["drives"]
    return None if has_no_fake_drive else to_finite_number(raw.get("expect_drive_gib"))


def count_missing_interfaces(raw: Raw) -> float | None:
    """Return how many declared interfaces are not there; IP over InfiniBand (type 32) is not one of them."""
    listed = list_or_empty(mapping_or_empty(raw.get("fabric")).get("interfaces"))
    present = sum(mapping_or_empty(entry).get("type") == ETHERNET for entry in listed)
    return count_missing(to_finite_number(raw.get("expect_interfaces")), float(present))


def list_interface_mtus(raw: Raw) -> dict[str, float]:
    """Return the MTU of each interface, IP over InfiniBand included; none from an agent that did not read them."""
    listed = map(mapping_or_empty, list_or_empty(mapping_or_empty(raw.get("fabric")).get("interfaces")))
    mtus = {str(entry.get("name")): to_finite_number(entry.get("mtu")) for entry in listed}
    return {name: mtu for name, mtu in mtus.items() if mtu is not None}


def count_missing_mtu(raw: Raw) -> float | None:
    """Return 1 if no interface has the declared MTU: a template does not say which one should."""
    declared, mtus = to_finite_number(raw.get("expect_mtu")), list_interface_mtus(raw)
    return float(declared not in mtus.values()) if declared and mtus else None


def describe_mtus(raw: Raw) -> str:
    """Return the declared MTU and that of each interface."""
    mtus = ", ".join(f"{name} {mtu:g}" for name, mtu in sorted(list_interface_mtus(raw).items()))
    return f"declared {to_finite_number(raw.get('expect_mtu')) or 0:g}, {mtus}"


def count_missing_drives(raw: Raw, drives: list[Raw]) -> float | None:
    """Return how many declared drives are not there; a drive of another size, as a boot volume, is not one of them."""
    expected_gib, count = find_expected_drive_gib(raw), to_finite_number(raw.get("expect_drives"))
    if not expected_gib or not count:
        return None
    sizes = [
        (to_finite_number(sectors) or 0.0) * BYTES_PER_SECTOR / BYTES_PER_GIB
        for drive in drives
        for sectors in list_or_empty(drive.get("namespaces")) or [drive.get("sectors")]
    ]
    low, high = SAME_SIZE
    return count_missing(count, float(sum(low <= size / expected_gib <= high for size in sizes)))


def compute_drive_share(drives: list[Raw], expected_gib: float | None) -> float | None:
    """Return the largest drive's size as a share of the declared one; 0 without any drive."""
    if not expected_gib:
        return None
    sectors = [to_finite_number(drive.get("sectors")) or 0.0 for drive in drives]
    return max(sectors, default=0.0) * BYTES_PER_SECTOR / BYTES_PER_GIB / expected_gib

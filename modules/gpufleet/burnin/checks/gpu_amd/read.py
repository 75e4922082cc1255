"""Metrics of AMD GPUs from what the driver amdgpu shows in sysfs.

The formats are the kernel's (docs.kernel.org, gpu/amdgpu): a block's error count has the lines ``ue: N`` and ``ce: N``,
a bad page the line ``page : size : flag`` with R for retired, P for pending and F for one that cannot be retired.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpufleet import catalog
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    find_lowest,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.site_card import SiteCards, get_site_cards
from gpufleet.drivers import PciDevice
from gpufleet.errors import InputError

AMD, DRIVER = "1002", "amdgpu"
# Server cards, which have RAS; a virtual function of one shows none to its guest.
SERVER_NAME, VIRTUAL_SUFFIX = "Instinct", " VF"
UNCORRECTED = re.compile(r"^ue:\s*(\d+)\s*$", re.MULTILINE)
CORRECTED = re.compile(r"^ce:\s*(\d+)\s*$", re.MULTILINE)
NO_HIVE = {"0", "", "None"}
FEATURE_MASK = re.compile(r"feature mask: 0x([0-9a-fA-F]+)")
BAD_PAGE = re.compile(r"^0x[0-9a-fA-F]+ : 0x[0-9a-fA-F]+ : ([RPF])$")
WHOLE_GPU = "SPX"
BYTES_PER_GIB = 2**30


def read_record(raw: Raw) -> CheckReadings:
    """Count GPUs, missing drivers, uncorrected errors and bad pages; read memory and heat."""
    devices = [mapping_or_empty(device) for device in list_or_empty(raw.get("devices"))]
    declared = to_finite_number(raw.get("expect_amd_gpus"))
    cards = get_site_cards(raw)
    shares = [compute_memory_share(device, cards) for device in devices]
    readings: dict[str, Reading] = {
        "gpus_missing": max(0.0, max(declared or 0.0, 1.0) - len(devices)),
        "without_driver": add_up_counts([read_driver(device, cards) for device in devices] or [0.0]),
        "ras_uncorrected": add_up_counts(count_uncorrected_errors(device, cards) for device in devices),
        "ras_corrected": add_up_counts(count_corrected_errors(device) for device in devices),
        "xgmi_errors": add_up_counts(read_xgmi_error(device) for device in devices),
        "outside_hive": float(len(find_gpus_outside_hive(devices)))
        if any(device.get("xgmi_hive_id") for device in devices)
        else NOT_APPLICABLE,
        "ras_disabled": add_up_counts(is_ras_disabled(device, cards) for device in devices),
        "bad_pages_pending": add_up_counts(count_pending_pages(device, cards) for device in devices),
        "vram_share": find_lowest(shares),
        # The lowest of what is known does not speak for a card that shows nothing.
        "vram_unread": add_up_counts(0.0 if isinstance(share, float) else share for share in shares),
        "thermal_margin_c": find_lowest(read_thermal_margin(device) for device in devices),
    }
    total = build_check_readings(readings, float(len(devices)), "GPUs")
    details = {
        "ras_uncorrected": ", ".join(text for device in devices for text in list_failed_blocks(device)),
        "xgmi_errors": ", ".join(
            str(d.get("slot")) for d in devices if to_finite_number(d.get("xgmi_error"))
        ),
        "outside_hive": ", ".join(find_gpus_outside_hive(devices)),
    }
    return replace(total, details=details)


def read_xgmi_error(device: Raw) -> Reading:
    """Return 1 if a card's xGMI links had errors since they were last read; newer cards (MI300) have no such file."""
    errors = to_finite_number(device.get("xgmi_error"))
    return NOT_APPLICABLE if errors is None else float(errors > 0)


def find_gpus_outside_hive(devices: list[Raw]) -> list[str]:
    """Return the cards that are in no xGMI hive where most cards of the same model are."""
    outside = []
    for model in {str(device.get("device")) for device in devices}:
        equals = [device for device in devices if str(device.get("device")) == model]
        alone = [device for device in equals if str(device.get("xgmi_hive_id") or "0") in NO_HIVE]
        if len(alone) * 2 < len(equals):
            outside += [str(device.get("slot")) for device in alone]
    return sorted(outside)


def list_failed_blocks(device: Raw) -> list[str]:
    """Return the blocks of a card with uncorrected errors: umc is its memory, xgmi_wafl its links to other cards."""
    counts = mapping_or_empty(mapping_or_empty(device.get("ras")).get("counts"))
    matches = ((str(name), UNCORRECTED.search(str(text))) for name, text in counts.items())
    return [
        f"{device.get('slot')} {name.removesuffix('_err_count').removeprefix('aca_')} {match[1]}"
        for name, match in matches
        if match and int(match[1])
    ]


def count_corrected_errors(device: Raw) -> Reading:
    """Return the corrected errors of all blocks since the driver loaded."""
    counts = mapping_or_empty(mapping_or_empty(device.get("ras")).get("counts"))
    matches = [CORRECTED.search(str(text)) for text in counts.values()]
    return add_up_counts(float(match[1]) for match in matches if match)


def read_driver(device: Raw, cards: SiteCards) -> Reading:
    """Return 1 without a driver; another driver (a card passed on to a VM) tells nothing about the card.

    A processor's own graphics that nobody uses needs no driver: the node was not bought for it.
    """
    driver = device.get("driver")
    card = cards.find(build_pci_device(device))
    if driver != DRIVER and card and card.market == "integrated":
        return NOT_APPLICABLE
    if not driver:
        return 1.0
    return 0.0 if driver == DRIVER else f"the GPU is bound to {str(driver)[:40]}"


def find_card_name(device: Raw, cards: SiteCards) -> str:
    """Return the card's name by its PCI id, or nothing."""
    card = cards.find(build_pci_device(device))
    return card.name if card else ""


def build_pci_device(device: Raw) -> PciDevice:
    """Return the device's PCI ids."""
    ids = {
        name: str(device.get(name) or "").removeprefix("0x").lower()
        for name in ("device", "subsystem_vendor", "subsystem_device")
    }
    subsystem = f"{ids['subsystem_vendor']}:{ids['subsystem_device']}"
    return PciDevice(str(device.get("slot")), AMD, ids["device"], "", subsystem)


def has_ras(device: Raw, cards: SiteCards) -> bool:
    """Return whether the card must show error counters."""
    name = find_card_name(device, cards)
    is_virtual = device.get("is_virtual") is True or name.endswith(VIRTUAL_SUFFIX)
    return name.startswith(SERVER_NAME) and not is_virtual


def explain_missing_ras(device: Raw, cards: SiteCards) -> Reading:
    """Return why there are no error counters: the card has none, or they cannot be read."""
    return "the driver shows no RAS error counters" if has_ras(device, cards) else NOT_APPLICABLE


def count_uncorrected_errors(device: Raw, cards: SiteCards) -> Reading:
    """Return the uncorrected errors of all blocks since the driver loaded."""
    counts = mapping_or_empty(mapping_or_empty(device.get("ras")).get("counts"))
    if not counts:
        return explain_missing_ras(device, cards)
    matches = [(name, UNCORRECTED.search(str(text))) for name, text in counts.items()]
    return add_up_counts(
        float(match[1]) if match else f"{str(name)[:40]} has no count of uncorrected errors"
        for name, match in matches
    )


def is_ras_disabled(device: Raw, cards: SiteCards) -> Reading:
    """Return 1 if the card has RAS and no block uses it."""
    features = mapping_or_empty(device.get("ras")).get("features")
    match = FEATURE_MASK.search(str(features))
    if match is None:
        return explain_missing_ras(device, cards)
    return float(int(match[1], 16) == 0)


def count_pending_pages(device: Raw, cards: SiteCards) -> Reading:
    """Return the bad pages that are still in use: they wait for a reset, or cannot be retired."""
    ras = device.get("ras")
    pages = mapping_or_empty(ras).get("bad_pages")
    if not isinstance(pages, str):
        return explain_missing_ras(device, cards)
    flags = [BAD_PAGE.match(line.strip()) for line in pages.splitlines() if line.strip()]
    return add_up_counts(
        float(match[1] != "R") if match else "the list of bad pages is not in the kernel's format"
        for match in [*flags, BAD_PAGE.match("0x0 : 0x0 : R")]
    )


def compute_memory_share(device: Raw, cards: SiteCards) -> Reading:
    """Return the memory as a share of the smallest that the card is sold with."""
    card = cards.find(build_pci_device(device))
    parts = [part for name in (card.catalogue if card else ()) if (part := find_accelerator(name))]
    partition = device.get("current_compute_partition")
    if not parts or any(part.unified for part in parts) or partition not in {None, WHOLE_GPU}:
        return NOT_APPLICABLE
    size = to_finite_number(device.get("vram_bytes"))
    if size is None:
        return "mem_info_vram_total cannot be read"
    smallest = min(size for part in parts for size in (part.memory_gib, *part.memory_options))
    return size / BYTES_PER_GIB / smallest


def find_accelerator(name: str) -> catalog.Accelerator | None:
    """Return the catalogue's entry, or None."""
    try:
        return catalog.get_accelerator(name)
    except InputError:
        return None


def read_thermal_margin(device: Raw) -> Reading:
    """Return the smallest distance of a sensor to its critical temperature."""
    margins = []
    for entry in list_or_empty(device.get("temperatures")):
        sensor = mapping_or_empty(entry)
        current, critical = (to_finite_number(sensor.get(name)) for name in ("millidegrees", "critical"))
        if current is not None and critical:
            margins.append((critical - current) / 1000)
    return min(margins) if margins else NOT_APPLICABLE

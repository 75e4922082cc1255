"""Metrics of GPU work through Vulkan and HIP: wrong results are faults; rates have no floors but a site's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpufleet.burnin.card import read_card_rates
from gpufleet.burnin.evidence import (
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
from gpufleet.burnin.gpu_readings import (
    count_differing_checksums,
    count_gained,
    count_wrong_memory,
    explain_untested,
    is_link_narrow,
    is_link_slow,
    list_devices,
    read_margin,
    sum_fields,
)

KINDS = ("u32", "f32")
# What is known exactly of each product, and what every repetition must repeat.
EXACT_COUNTS = ("wrong_rows", "fractions", "wrong_samples")
RATES = {
    "read_gb_per_s": ("memory", "read_gb_per_s"),
    "write_gb_per_s": ("memory", "write_gb_per_s"),
    "copy_gb_per_s": ("memory", "copy_gb_per_s"),
    "to_device_gb_per_s": ("copy", "to_device_gb_per_s"),
    "to_host_gb_per_s": ("copy", "to_host_gb_per_s"),
}


def extract_card_metrics(raw: Raw, lost_codes: frozenset[int]) -> CheckReadings:
    """Wrong results, lost devices, and the lowest rate of all devices."""
    if not isinstance(raw.get("devices"), list):
        return CheckReadings(unreadable="the record contains no list of GPUs")
    devices = [*list_devices(raw), *list_hidden_cards(raw)]
    counts: dict[str, Callable[[Raw], Reading]] = {
        "wrong_results": count_wrong_products,
        "wrong_vectors": lambda device: count_wrong_memory(select_memory(device)),
        "wrong_copies": count_wrong_copies,
        "ecc_gained": count_gained("ecc_uncorrected"),
        "link_narrow": lambda device: is_link_narrow(select_link(device)),
        "link_slow": lambda device: is_link_slow(select_link(device)),
    }
    readings: dict[str, Reading] = {
        name: add_up_counts(explain_untested(device) or read(device) for device in devices)
        for name, read in counts.items()
    }
    margins = [explain_untested(device) or read_margin(device) for device in devices]
    readings["thermal_margin_c"] = find_lowest(margins)
    readings["devices_lost"] = add_up_counts(count_lost(device, lost_codes) for device in devices)
    readings["checksums_differ"] = count_differing_checksums(devices)
    rates: dict[str, Callable[[Raw], Reading]] = {
        f"{kind}_gops": partial(read_product_rate, kind=kind) for kind in KINDS
    }
    rates |= {name: partial(read_rate, path=path) for name, path in RATES.items()}
    readings |= read_card_rates(devices, rates, explain_untested)
    shown = readings["f32_gops"]
    return build_check_readings(readings, shown if isinstance(shown, float) else None, "GFLOP/s")


def list_hidden_cards(raw: Raw) -> list[Raw]:
    """Return an untested device for each AMD card on the bus that the API does not show: the others are no pass."""
    tested = [device for device in list_devices(raw) if device.get("vendor") in (None, "1002")]
    missing = len(list_or_empty(raw.get("amd_on_bus"))) - len(tested)
    return [{"error": "an AMD GPU on the PCI bus was not tested: no driver shows it"}] * missing


def list_products(device: Raw) -> dict[str, Raw]:
    """Return a device's products by kind."""
    products = [mapping_or_empty(product) for product in list_or_empty(device.get("matmul"))]
    return {str(product.get("kind")): product for product in products}


def count_wrong_products(device: Raw) -> Reading:
    """Return wrong rows, elements and vectors; without both products, or without a repetition, it is unknown."""
    products = list_products(device)
    fields: list[tuple[str, Any]] = []
    for kind in KINDS:
        product = products.get(kind, {})
        exact = mapping_or_empty(product.get("exact"))
        fields += [(f"{kind} {name}", exact.get(name)) for name in EXACT_COUNTS]
        fields.append((f"{kind} wrong_vectors", product.get("wrong_vectors")))
        if not to_finite_number(product.get("runs")):
            fields.append((f"{kind} runs", None))
    return sum_fields(fields)


def select_memory(device: Raw) -> Mapping[str, Any]:
    """Return the record of memory; what may be tested counts as free, for a GPU may share the host's memory."""
    memory = mapping_or_empty(device.get("memory"))
    return {**memory, "free_bytes": memory.get("allowed_bytes")}


def select_link(device: Raw) -> Mapping[str, Any]:
    """Return the link while copies kept it busy, and what card and slot can do."""
    return {"series": mapping_or_empty(device.get("copy")).get("series"), "slot": device.get("slot")}


def count_wrong_copies(device: Raw) -> Reading:
    """Return wrong vectors of the copy to the host and back."""
    return sum_fields([("copies", mapping_or_empty(device.get("copy")).get("wrong_vectors"))])


def count_lost(device: Raw, lost_codes: frozenset[int]) -> Reading:
    """Return 1 where the driver lost the device or it hung; our kernels take less than a second each."""
    if "failed" in device:
        return 1.0 if device.get("code") in lost_codes else explain_untested(device)
    return explain_untested(device) or 0.0


def read_product_rate(device: Raw, kind: str) -> Reading:
    """Return the rate of one kind of product."""
    rate = to_finite_number(list_products(device).get(kind, {}).get("gops"))
    return f"no {kind} product was measured" if rate is None else rate


def read_rate(device: Raw, path: tuple[str, str]) -> Reading:
    """Return one rate of a part of the record."""
    rate = to_finite_number(mapping_or_empty(device.get(path[0])).get(path[1]))
    return f"{path[1]} is missing" if rate is None else rate

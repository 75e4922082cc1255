"""What a GPU's tensor cores and FMA chains computed, and what the sensors saw."""

from __future__ import annotations

from typing import Any

from gpufleet.burnin.card import read_card_rates
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    find_lowest,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.gpu_readings import (
    LOAD_READERS,
    DeviceReader,
    count_differing_checksums,
    explain_untested,
    list_devices,
    read_devices,
    show,
    sum_fields,
)


def read_record(raw: Raw) -> CheckReadings:
    """Wrong results, rates of all cards and of each kind, and what the sensors saw."""
    readers: dict[str, DeviceReader] = {
        "wrong_results": count_wrong_products,
        **LOAD_READERS,
    }
    rates: dict[str, DeviceReader] = {
        "bf16_tflops": read_bf16_rate,
        "cublas_bf16_tflops": read_cublas_rate,
        "f32_tflops": lambda device: read_orbit_rate(device, "f32"),
        "f64_tflops": lambda device: read_orbit_rate(device, "f64"),
    }
    readings = read_devices(raw, readers) | read_card_rates(list_devices(raw), rates, explain_untested)
    readings["checksums_differ"] = count_differing_checksums(list_devices(raw))
    shown = [read_bf16_rate(device) for device in list_devices(raw)]
    return show(raw, readings, find_lowest(shown), "TFLOP/s")


def count_wrong_products(device: Raw) -> Reading:
    """Return wrong rows, vectors and orbits; without a single product or orbit it is unknown."""
    products = [mapping_or_empty(product) for product in list_or_empty(device.get("matmul"))]
    orbits = mapping_or_empty(device.get("orbits"))
    fields: list[tuple[str, Any]] = []
    for product in products:
        exact, cublas = mapping_or_empty(product.get("exact")), mapping_or_empty(product.get("cublas"))
        fields += [(name, exact.get(name)) for name in ("wrong_rows", "fractions")]
        fields.append(("wrong_vectors", product.get("wrong_vectors")))
        if cublas.get("ran") is True:
            fields.append(("different_vectors", cublas.get("different_vectors")))
    fields += [(f"orbit {kind}", mapping_or_empty(orbit).get("wrong")) for kind, orbit in orbits.items()]
    if not products and not device.get("matmul_missing"):
        fields.append(("matmul", None))
    if not all(kind in orbits for kind in ("f32", "f64")):
        fields.append(("orbits", None))
    if any(not to_finite_number(product.get("runs")) for product in products):
        fields.append(("runs", None))
    return sum_fields(fields)


def read_bf16_rate(device: Raw) -> Reading:
    """Return the rate of the part's own bf16 kernel, the first one."""
    for entry in list_or_empty(device.get("matmul")):
        product = mapping_or_empty(entry)
        rate = to_finite_number(product.get("tflops"))
        if product.get("kind") == "bf16" and rate is not None:
            return rate
    return "no bf16 product was measured"


def read_cublas_rate(device: Raw) -> Reading:
    """Return the rate of cuBLAS for the bf16 product; it does not apply where no library is installed."""
    for entry in list_or_empty(device.get("matmul")):
        cublas = mapping_or_empty(mapping_or_empty(entry).get("cublas"))
        rate = to_finite_number(cublas.get("tflops"))
        if mapping_or_empty(entry).get("kind") == "bf16" and cublas.get("ran") is True and rate is not None:
            return rate
    return NOT_APPLICABLE


def read_orbit_rate(device: Raw, kind: str) -> Reading:
    """Return the rate of the chains of FMAs in one precision."""
    rate = to_finite_number(mapping_or_empty(mapping_or_empty(device.get("orbits")).get(kind)).get("tflops"))
    return f"no {kind} chain was measured" if rate is None else rate

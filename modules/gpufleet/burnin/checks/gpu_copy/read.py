"""Wrong copies, rates, and the PCIe link under load against card and slot."""

from __future__ import annotations

from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    Reading,
    find_lowest,
    list_or_empty,
    mapping_or_empty,
)
from gpufleet.burnin.gpu_readings import (
    LOAD_READERS,
    DeviceReader,
    is_link_narrow,
    is_link_slow,
    list_devices,
    read_devices,
    read_number,
    read_rates,
    show,
    sum_fields,
)


def read_record(raw: Raw) -> CheckReadings:
    """Wrong copies, rates, and the link under load against card and slot."""
    readers: dict[str, DeviceReader] = {
        "wrong_vectors": count_wrong_copies,
        "link_narrow": is_link_narrow,
        "link_slow": is_link_slow,
        **LOAD_READERS,
    }
    for name in ("to_device", "to_host"):
        readers |= read_rates(f"{name}_gb_per_s", read_number(f"{name}_gb_per_s"))
    rates = [read_number("to_device_gb_per_s")(device) for device in list_devices(raw)]
    return show(raw, read_devices(raw, readers), find_lowest(rates), "GB/s")


def count_wrong_copies(device: Raw) -> Reading:
    """Return wrong vectors of copies with the host and with every other GPU."""
    peers = [mapping_or_empty(peer) for peer in list_or_empty(device.get("peers"))]
    return sum_fields(("wrong_vectors", record.get("wrong_vectors")) for record in (device, *peers))

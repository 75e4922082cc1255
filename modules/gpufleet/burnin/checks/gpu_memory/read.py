"""Wrong GPU memory, and rates."""

from __future__ import annotations

from gpufleet.burnin.card import read_card_rates
from gpufleet.burnin.evidence import CheckReadings, Raw, find_lowest
from gpufleet.burnin.gpu_readings import (
    LOAD_READERS,
    DeviceReader,
    count_wrong_memory,
    explain_untested,
    list_devices,
    read_devices,
    read_number,
    show,
)


def read_record(raw: Raw) -> CheckReadings:
    """Wrong memory and rates."""
    readers: dict[str, DeviceReader] = {"wrong_vectors": count_wrong_memory, **LOAD_READERS}
    devices = list_devices(raw)
    rates = {name: read_number(name) for name in ("read_gb_per_s", "write_gb_per_s", "copy_gb_per_s")}
    readings = read_devices(raw, readers) | read_card_rates(devices, rates, explain_untested)
    return show(raw, readings, find_lowest(rates["copy_gb_per_s"](device) for device in devices), "GB/s")

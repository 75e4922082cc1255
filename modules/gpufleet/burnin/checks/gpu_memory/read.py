"""Wrong GPU memory, and rates."""

from __future__ import annotations

from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    find_lowest,
)
from gpufleet.burnin.gpu_readings import (
    LOAD_READERS,
    DeviceReader,
    count_wrong_memory,
    list_devices,
    read_devices,
    read_number,
    read_rates,
    show,
)


def read_record(raw: Raw) -> CheckReadings:
    """Wrong memory and rates."""
    readers: dict[str, DeviceReader] = {"wrong_vectors": count_wrong_memory, **LOAD_READERS}
    for name in ("read", "write", "copy"):
        readers |= read_rates(f"{name}_gb_per_s", read_number(f"{name}_gb_per_s"))
    rates = [read_number("copy_gb_per_s")(device) for device in list_devices(raw)]
    return show(raw, read_devices(raw, readers), find_lowest(rates), "GB/s")

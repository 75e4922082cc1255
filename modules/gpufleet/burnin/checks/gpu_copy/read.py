"""Wrong copies, rates, and the PCIe link under load against card and slot."""

from __future__ import annotations

from gpufleet.burnin.card import read_card_rates
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
    explain_untested,
    is_link_narrow,
    is_link_slow,
    list_devices,
    read_devices,
    read_number,
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
    devices = list_devices(raw)
    names = ("to_device_gb_per_s", "to_host_gb_per_s", "both_gb_per_s")
    rates: dict[str, DeviceReader] = {name: read_number(name) for name in names}
    rates["peer_gb_per_s"] = read_slowest_peer
    readings = read_devices(raw, readers) | read_card_rates(devices, rates, explain_untested)
    return show(raw, readings, find_lowest(rates["to_device_gb_per_s"](device) for device in devices), "GB/s")


def read_slowest_peer(device: Raw) -> Reading:
    """Return the slowest direct copy to another GPU; none goes directly on a machine with one GPU or without P2P."""
    peers = [mapping_or_empty(peer) for peer in list_or_empty(device.get("peers"))]
    return find_lowest(read_number("gb_per_s")(peer) for peer in peers if peer.get("direct") is True)


def count_wrong_copies(device: Raw) -> Reading:
    """Return wrong vectors of copies with the host and with every other GPU."""
    peers = [mapping_or_empty(peer) for peer in list_or_empty(device.get("peers"))]
    return sum_fields(("wrong_vectors", record.get("wrong_vectors")) for record in (device, *peers))

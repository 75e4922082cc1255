"""Compare a node's fabric adapters with the fabric that its stack declares."""

from __future__ import annotations

import re

from gpufleet.burnin.evidence import Raw, count_missing, list_or_empty, mapping_or_empty, to_finite_number

# The link layer of the ports that carry a fabric. A VF for IP is an Ethernet port next to InfiniBand's (Azure).
PORT_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet", "gpudirect_rdma": "Ethernet"}
EFA = "efa"
# GPUDirect-TCPX and -TCPXO use Google's virtual NICs (driver gve); the first one is for everything else.
GVNIC_FABRICS, GVNIC_DRIVER = ("gpudirect_tcpx", "gpudirect_tcpxo"), "gve"
# sysfs: "4: ACTIVE", "400 Gb/sec (4X NDR)".
ACTIVE = "4:"
RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


def compare_fabric(raw: Raw) -> dict[str, float | None]:
    """Return metrics of the declared fabric; none where none is declared."""
    kind, found = str(raw.get("expect_fabric") or ""), mapping_or_empty(raw.get("fabric"))
    adapters = to_finite_number(raw.get("expect_fabric_adapters"))
    if kind in PORT_LAYERS:
        ports = [
            port
            for entry in list_or_empty(found.get("rdma"))
            if (port := mapping_or_empty(entry)).get("link_layer") == PORT_LAYERS[kind]
        ]
        return {
            "fabric_adapters_missing": count_missing(adapters, float(len(ports))),
            "fabric_ports_down": float(sum(not is_active(port) for port in ports)),
            "fabric_rate_share": compute_rate_share(
                ports, to_finite_number(raw.get("expect_fabric_gbit_per_s"))
            ),
        }
    if kind == EFA:
        devices = [mapping_or_empty(entry) for entry in list_or_empty(found.get("efa"))]
        return {
            "fabric_adapters_missing": count_missing(adapters, float(len(devices))),
            "fabric_without_driver": float(sum(device.get("driver") != EFA for device in devices)),
        }
    if kind in GVNIC_FABRICS:
        drivers = [mapping_or_empty(entry).get("driver") for entry in list_or_empty(found.get("interfaces"))]
        others = max(0, drivers.count(GVNIC_DRIVER) - 1)
        return {"fabric_adapters_missing": count_missing(adapters, float(others))}
    return {}


def is_active(port: Raw) -> bool:
    """Return whether a port's link is up and configured."""
    return str(port.get("state")).startswith(ACTIVE)


def compute_rate_share(ports: list[Raw], expected_gbit_per_s: float | None) -> float | None:
    """Return the rate of all active ports as a share of the declared one."""
    if not expected_gbit_per_s:
        return None
    rates = [RATE.match(str(port.get("rate"))) for port in ports if is_active(port)]
    return sum(float(rate[1]) for rate in rates if rate) / expected_gbit_per_s

"""Default host of a bare accelerator, network of a cloud machine, speed of a PCIe slot, read from data files."""

from __future__ import annotations

import re
from functools import cache

from gpufleet.catalog import Accelerator, load_catalog_sources
from gpufleet.catalog.machine_facts import get_fabric_facts, matches_name_pattern
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.data_file import load_sizing_rows

FABRIC_TITLES = {
    "efa": "EFA",
    "infiniband": "InfiniBand",
    "gpudirect_tcpx": "GPUDirect-TCPX",
    "gpudirect_tcpxo": "GPUDirect-TCPXO",
    "gpudirect_rdma": "RoCE",
}
GBIT_PER_GB = 8.0
LANES_OF_A_FULL_SLOT = 16
KINDS_WITHOUT_SLOTS = ("apple", "sbc", "npu", "apu", "tpu", "cpu")


@dataclass(frozen=True)
class DefaultHost:
    """The default host of an accelerator; ``source`` begins with "assumption" if no source is published."""

    devices: int
    network_gb_s: float  # per device
    network: str
    memory_gib: float | None
    source: str


@cache
def find_default_host(accelerator: Accelerator) -> DefaultHost:
    """Return the host in which parts of this kind are sold or commonly installed."""
    row = next(row for row in load_sizing_rows("hosts.csv") if _matches(row["match"], accelerator))
    devices = row.get_integer("devices_per_node")
    per_device = (
        row.get_number("network_gbit_s")
        / GBIT_PER_GB
        / min(devices, _devices_per_network_figure(accelerator, devices))
    )
    return DefaultHost(
        devices, per_device, row["network"], row.get_optional_number("host_memory_gib"), row["source"]
    )


def find_machine_network(machine: str, cloud: str) -> tuple[float, str, str]:
    """Return GB/s of a cloud machine's network, its kind and its source; the fabric's if it has one."""
    facts = get_fabric_facts(machine, cloud)
    if facts and facts.fabric and facts.fabric_gbit_per_s:
        source = load_catalog_sources()[facts.cells["fabric_gbit_per_s"].source.split(maxsplit=1)[0]]
        return facts.fabric_gbit_per_s / GBIT_PER_GB, FABRIC_TITLES[facts.fabric], source.title
    rows = load_sizing_rows("networks.csv")
    row = next(row for row in rows if matches_name_pattern(machine, row["machine"]))
    return row.get_number("gbit_s") / GBIT_PER_GB, row["network"], row["source"]


@cache
def find_device_interconnect(accelerator: Accelerator, devices: int) -> tuple[float, str]:
    """Return GB/s per device and direction between so many devices of one node, and the link's name.

    NVLink bridges join pairs only: three or more cards with bridges communicate over PCIe.
    """
    bridged = "PCIe" in accelerator.form_factor and accelerator.link.startswith("NVLink")
    if accelerator.link and accelerator.link_gb_s and not (bridged and devices > 2):  # noqa: PLR2004 - a bridge joins two
        return accelerator.link_gb_s / 2, accelerator.link  # vendors add both directions
    slot = pcie_slot_gb_s(accelerator)
    return (slot, f"PCIe {accelerator.pcie_gen}") if slot else (0.0, "")


@cache
def pcie_slot_gb_s(accelerator: Accelerator) -> float:
    """Return GB/s and direction of the accelerator's slot, 0 where it has none."""
    if accelerator.pcie_gen is None or accelerator.kind in KINDS_WITHOUT_SLOTS:
        return 0.0
    lanes = re.search(r"PCIe x(\d+)", accelerator.form_factor)
    share = int(lanes[1]) / LANES_OF_A_FULL_SLOT if lanes else 1.0
    return load_slot_speeds().get(accelerator.pcie_gen, 0.0) * share


@cache
def load_slot_speeds() -> dict[int, float]:
    """Return GB/s and direction of a slot with 16 lanes, by generation."""
    return {row.get_integer("pcie_gen"): row.get_number("gb_s_x16") for row in load_sizing_rows("slots.csv")}


def _devices_per_network_figure(accelerator: Accelerator, devices: int) -> int:
    """Return how many devices share the host's network figure: pods and trays state it per tray of four."""
    return 4 if accelerator.kind == "tpu" or "NVL72" in accelerator.form_factor else devices


def _matches(match: str, accelerator: Accelerator) -> bool:
    field, _, expected = match.partition(":")
    if field == "name":
        return accelerator.name == expected
    if field == "kind":
        return accelerator.kind == expected
    if field == "begins":
        return accelerator.name.startswith(expected)
    return accelerator.form_factor.startswith(expected)

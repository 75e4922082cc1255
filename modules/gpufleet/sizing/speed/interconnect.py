"""Interconnect between devices: latency and bandwidth within a node and between nodes."""

from __future__ import annotations

from math import log2

from gpufleet.catalog import Accelerator
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.hardware import Hardware, ParallelLayout

PCIE_GB_S = 25.0  # assumption: four fifths of the 31 GB/s of a PCIe 4.0 x16 slot (slots.csv)
ETHERNET_GB_S = 0.118  # 1 GbE less the frames of full packets
ADAPTER_GB_S = 50.0  # assumption where no network is stated: one 400 Gbit/s adapter per device
ADAPTER_YEAR = 2022  # assumption: half of that before


@dataclass(frozen=True)
class InterconnectLink:
    """``kind`` chooses the fitted latency; ``gb_s`` is per device and direction."""

    kind: str  # switched, mesh, pcie, adapter, ethernet
    gb_s: float

    def fused_all_reduce_seconds(
        self, device_count: int, payload_bytes: float, latency_s: float, bandwidth_share: float
    ) -> float:
        """Return seconds of the all-reduce kernels of serving engines, which write into each other's memory.

        One step sends the whole payload to every member; two steps scatter and gather it, with twice the latency
        (vLLM's custom all-reduce, TensorRT-LLM's AllReduceStrategy ONESHOT and TWOSHOT). The faster one runs.
        """
        rate = self.gb_s * bandwidth_share * 1e9
        others = device_count - 1
        one_step = latency_s + others * payload_bytes / rate
        two_steps = 2.0 * latency_s + 2.0 * others / device_count * payload_bytes / rate
        return min(one_step, two_steps)

    def exchange_seconds(
        self, device_count: int, bytes_per_device: float, latency_s: float, bandwidth_share: float
    ) -> float:
        """Return seconds of an all-to-all in which each device sends so many bytes, its own share left out."""
        moved = bytes_per_device * (device_count - 1) / device_count
        return latency_s + moved / (self.gb_s * bandwidth_share * 1e9)

    def all_reduce_seconds(
        self, device_count: int, payload_bytes: float, latency_s: float, bandwidth_share: float
    ) -> float:
        """Return seconds of an all-reduce of ``payload_bytes`` bytes at a share of the nominal bandwidth.

        A ring moves 2 (n - 1) / n of the payload per member (Patarasuk and Yuan, 2009); latency grows with log2(n).
        """
        if device_count <= 1:
            return 0.0
        moved_bytes = 2.0 * (device_count - 1) / device_count * payload_bytes
        return latency_s * (1.0 + log2(device_count)) + moved_bytes / (self.gb_s * bandwidth_share * 1e9)


def intra_node_link(hardware: Hardware) -> InterconnectLink:
    """Return the link between devices of one node."""
    if hardware.link and not hardware.link.startswith("PCIe"):
        kind = "mesh" if hardware.link == "Infinity Fabric" else "switched"
        return InterconnectLink(kind, hardware.link_gb_s)
    return InterconnectLink("pcie", hardware.link_gb_s or PCIE_GB_S)


def inter_node_link(hardware: Hardware) -> InterconnectLink:
    """Return the link between nodes; a typical one if the hardware states none."""
    speed = hardware.network_gb_s or _default_network_gb_s(hardware.accelerator)
    return InterconnectLink("adapter" if speed >= 10 else "ethernet", speed)  # noqa: PLR2004 - 100 Gbit/s cards bypass the kernel


def _default_network_gb_s(accelerator: Accelerator) -> float:
    """Return the default network per device: one adapter per device in a data centre, else 1 GbE."""
    if accelerator.kind not in ("gpu_datacenter", "asic", "tpu"):
        return ETHERNET_GB_S
    if accelerator.kind == "tpu" and accelerator.link_gb_s:
        return accelerator.link_gb_s / 2  # ICI links of a pod connect hosts too
    return ADAPTER_GB_S if (accelerator.launch_year or 0) >= ADAPTER_YEAR else ADAPTER_GB_S / 2


def tensor_parallel_link(hardware: Hardware, layout: ParallelLayout) -> InterconnectLink:
    """Return the slowest link within a tensor-parallel group."""
    spans_nodes = (
        layout.nodes > 1 and layout.tensor * layout.pipeline * layout.data > hardware.devices_per_node
    )
    exceeds_node = layout.tensor > hardware.devices_per_node
    return inter_node_link(hardware) if spans_nodes and exceeds_node else intra_node_link(hardware)


def pipeline_link(hardware: Hardware, layout: ParallelLayout) -> InterconnectLink:
    """Return the link between pipeline stages."""
    return inter_node_link(hardware) if layout.nodes > 1 else intra_node_link(hardware)


def expert_parallel_link(hardware: Hardware, layout: ParallelLayout) -> InterconnectLink:
    """Return the slowest link between expert-parallel ranks."""
    return (
        inter_node_link(hardware)
        if layout.expert > hardware.devices_per_node and layout.nodes > 1
        else intra_node_link(hardware)
    )

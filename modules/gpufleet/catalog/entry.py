from __future__ import annotations

from datetime import date
from functools import cached_property
from typing import Literal

from gpufleet.catalog.fact_value import Fabric
from gpufleet.quick_dataclass import dataclass

Purchase = Literal[
    "on_demand",
    "spot",
    "reserved_1y",
    "reserved_3y",
    "savings_plan_1y",
    "savings_plan_3y",
    "cud_1y",
    "cud_3y",
    "capacity_block",
    "dws_flex",
]
Kind = Literal[
    "gpu_datacenter", "gpu_workstation", "gpu_gaming", "apple", "sbc", "npu", "asic", "tpu", "apu", "cpu"
]
Confidence = Literal["high", "medium", "low"]
HOURS_PER_MONTH = 730  # what the clouds' own calculators use: 8,760 hours / 12


@dataclass(frozen=True)
class Accelerator:
    """One kind of accelerator or board. Unknown figures are None, never a guess; rates are dense, never sparse.

    ``memory_gib`` is what is printed on the box, ``usable_gib`` what software can take of it. ``link_gb_s`` is
    per device and both directions together, as vendors state it. ``unified``: host and device share one memory.
    ``peer_access``: devices of one host read each other's memory without the host.
    """

    name: str
    vendor: str
    memory_gib: float
    bandwidth_gb_s: float | None
    fp32_tflops: float | None
    bf16_tflops_dense: float | None
    fp8_tflops_dense: float | None
    int8_tops_dense: float | None
    tdp_w: float | None
    architecture: str
    form_factor: str
    source: str
    as_of: str
    notes: str
    kind: Kind = "gpu_datacenter"
    memory_options: tuple[float, ...] = ()  # every size it is sold with, where that is more than one
    usable_gib: float | None = None
    fp16_tflops_dense: float | None = None
    fp4_tflops_dense: float | None = None
    link: str = ""  # NVLink4, Infinity Fabric, ICI, RoCE ...; empty: PCIe or nothing
    link_gb_s: float | None = None
    pcie_gen: int | None = None
    peer_access: bool = True
    unified: bool = False
    stacks: tuple[str, ...] = ()  # cuda, rocm, metal, mlx, vulkan, neuron, xla, cann, synapse, rknn, cpu ...
    launch_year: int | None = None
    aliases: tuple[str, ...] = ()
    bin_of: str = ""  # a cut-down or lesser version of that part: meant only where it is named in full


@dataclass(frozen=True)
class MachineAccelerators:
    """What a machine carries: devices the system sees, memory of each, and the share of a card it is."""

    model: str
    count: int
    memory_gib: float
    share: float = 1.0


@dataclass(frozen=True)
class Machine:
    """One machine type of a cloud, or one kind of machine we own (``cloud`` is then ``onprem``)."""

    name: str
    cloud: str
    vcpus: int
    memory_gib: float
    arch: str
    accelerators: tuple[MachineAccelerators, ...]
    attachable: tuple[str, ...]  # accelerators one may add (GCP n1); empty: what it has is what it has
    source: str
    as_of: str
    board: str = ""  # of a machine without a card: the accelerator that the board itself is
    idle_watts: float | None = None  # of the whole machine, doing nothing
    network_gb_s: float | None = None  # of the whole machine, in each direction

    @cached_property
    def fabric(self) -> Fabric | None:
        """Return the fabric of the facts table, which few readers of machines need."""
        from gpufleet.catalog.machine_facts import get_fabric_facts

        facts = get_fabric_facts(self.name, self.cloud)
        return facts.fabric if facts else None

    @property
    def accelerator_count(self) -> float:
        """Return how many whole accelerators it carries; a share of one is less than one."""
        return sum(card.count * card.share for card in self.accelerators)


@dataclass(frozen=True)
class Price:
    """A list price per ``unit`` (machine, accelerator, gib, address) and hour."""

    usd_per_hour: float
    unit: str
    as_of: str | None
    source: str
    confidence: Confidence
    region: str
    purchase: str

    @property
    def earliest_price_date(self) -> date | None:
        """Return the earliest day the price may date from: of an interval, its start."""
        return find_earliest_day(self.as_of)


def find_earliest_day(as_of: str | None) -> date | None:
    """Return the first day that a price's date means: a day, a month, or an interval of them (2025-11/2026-07)."""
    if not as_of:
        return None
    first = as_of.split("/")[0]
    return date.fromisoformat(first if first.count("-") == 2 else f"{first}-01")  # noqa: PLR2004 - Y-M-D


@dataclass(frozen=True)
class MachineOffer:
    """A machine that can be bought in a region in one way, at a price."""

    machine: Machine
    region: str
    purchase: str
    price: Price

    @property
    def accelerator_count(self) -> float:
        """Return how many cards it carries; a share of a card is less than one."""
        return self.machine.accelerator_count

    @property
    def usd_per_accelerator_hour(self) -> float | None:
        """Return the price by card, None for a machine without cards."""
        return self.price.usd_per_hour / self.accelerator_count if self.accelerator_count else None


@dataclass(frozen=True)
class MachineRetirement:
    """A machine that can no longer be had, since when, and what takes its place."""

    machine: str
    cloud: str
    retired: date
    substitutes: tuple[str, ...]
    source: str

"""The size and cost of a rack that we own."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpufleet import catalog
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.fleet import HardwareCost, Rack, RackNode

HOURS = float(HOURS_PER_MONTH)
MONTHS = 12


@dataclass(frozen=True)
class RackCost:
    """A rack: its size, and its cost facts for that many nodes."""

    name: str
    machine: str
    nodes: int
    cores: int | None  # None if neither the catalogue nor the rack file knows it; memory likewise
    memory_gib: float | None
    storage_gib: float
    cost: HardwareCost
    cards: dict[str, int] = field(default_factory=dict)
    cortex: int = 0  # Arm's number of the newest core among its boards, 0 for other machines

    @cached_property
    def usd_per_month_by_part(self) -> dict[str, float]:
        """Return USD a month by part, the capital spread over the years of use."""
        return {part: usd * HOURS for part, usd in self.cost.parts_usd_per_hour(self.nodes).items()}

    @property
    def total_usd_per_month(self) -> float:
        """Return the sum of all parts, in USD a month."""
        return sum(self.usd_per_month_by_part.values())

    @property
    def running_cost_usd_per_month(self) -> float:
        """Return the operating cost: the monthly cost without capital."""
        return self.total_usd_per_month - self.usd_per_month_by_part["capital"]

    @property
    def purchase_price_usd(self) -> float:
        """Return the purchase price."""
        return self.cost.capital_in_usd

    @property
    def resale_value_usd(self) -> float:
        """Return the resale value at the end of life."""
        return self.purchase_price_usd * self.cost.residual_fraction.value

    @property
    def months_of_use(self) -> float:
        """Return the months of use."""
        return self.cost.life_years.value * MONTHS

    def with_changed_figures(self, **figures: float) -> RackCost:
        """Return the rack with other figures, for a what-if."""
        from gpufleet.fleet import SourcedFigure

        facts = {
            name: SourcedFigure(value=float(value), source="what if", assumption=True)
            for name, value in figures.items()
        }
        return replace(self, cost=self.cost.model_copy(update=facts))


def compute_rack_cost(rack: Rack) -> RackCost:
    """Return a rack's size and cost; raise InputError without cost facts."""
    cost = rack.total_cost
    if cost is None:
        raise InputError("has no cost facts", where=rack.name, key="cost", remedy="add them: docs/spec.md")
    cores = [_find_cores(node) for node in rack.nodes]
    memory = [_find_memory_gib(node) for node in rack.nodes]
    cards: Counter[str] = Counter()
    for node in rack.nodes:
        machine = catalog.find_machine(node.machine, "onprem")
        cards.update({card.model: card.count for card in machine.accelerators} if machine else {})
        cards.update({attached.model: attached.count for attached in node.accelerators})
    return RackCost(
        name=rack.name,
        machine=rack.machine_text,
        nodes=len(rack.nodes),
        cores=None if None in cores else sum(filter(None, cores)),
        memory_gib=None if None in memory else sum(filter(None, memory)),
        storage_gib=sum(node.all_storage_gib for node in rack.nodes),
        cost=cost,
        cards=dict(cards),
        cortex=max(_find_cortex(node) for node in rack.nodes),
    )


def _find_cortex(node: RackNode) -> int:
    """Return Arm's number of a board's core, as its row of the catalogue names it (4xA76), 0 for other machines."""
    machine = catalog.find_machine(node.machine, "onprem")
    board = machine.board if machine else ""
    core = re.search(r"xA(\d+)", catalog.get_accelerator(board).architecture) if board else None
    return int(core[1]) if core else 0


def _find_cores(node: RackNode) -> int | None:
    """Return a node's cores: declared, else those of its machine in the catalogue."""
    machine = catalog.find_machine(node.machine, "onprem")
    return node.hardware.vcpus or (machine.vcpus if machine else None)


def _find_memory_gib(node: RackNode) -> float | None:
    machine = catalog.find_machine(node.machine, "onprem")
    return node.hardware.memory_gib or (machine.memory_gib if machine else None)

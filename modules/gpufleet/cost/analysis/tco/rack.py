"""The size and cost of a rack that we own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpufleet import catalog
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.fleet import HardwareCost, Rack

HOURS = float(HOURS_PER_MONTH)
MONTHS = 12


@dataclass(frozen=True)
class RackCost:
    """A rack: its size, and its cost facts for that many nodes."""

    name: str
    machine: str
    arch: str
    nodes: int
    cores: int
    memory_gib: float
    storage_gib: float
    cost: HardwareCost
    cards: dict[str, int] = field(default_factory=dict)

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
    if rack.cost is None:
        raise InputError("has no cost facts", where=rack.name, key="cost", remedy="add them: docs/spec.md")
    machines = [catalog.get_machine(node.machine, "onprem") for node in rack.nodes]
    cards: Counter[str] = Counter()
    for machine, node in zip(machines, rack.nodes, strict=True):
        cards.update({accelerator.model: accelerator.count for accelerator in machine.accelerators})
        cards.update({attached.model: attached.count for attached in node.accelerators})
    return RackCost(
        name=rack.name,
        machine=rack.machine,
        arch=machines[0].arch,
        nodes=len(machines),
        cores=sum(machine.vcpus for machine in machines),
        memory_gib=sum(machine.memory_gib for machine in machines),
        storage_gib=sum(node.all_storage_gib for node in rack.nodes),
        cost=rack.cost,
        cards=dict(cards),
    )

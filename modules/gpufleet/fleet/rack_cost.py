"""The cost of a rack whose nodes differ: each entry's own capital and power, and what all nodes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import model_validator

from gpufleet.fleet.frozen_model import FrozenModel, build_spec_error
from gpufleet.fleet.hardware import PLAIN_NUMBER_SOURCE, Figure, HardwareCost, SourcedFigure

# What each node has of its own; the other parts of a rack's cost are shared equally.
OWN_PARTS = ("capital", "power")


class RackHardwareCost(HardwareCost):
    """What the nodes of a rack cost that have no cost of their own; its capital may be missing if all have one."""

    needs_capital: ClassVar[bool] = False


class EntryCost(FrozenModel):
    """What the nodes of an entry cost: their price, all of them together, and the power of each."""

    capital_usd: Figure | None = None
    capital_eur: Figure | None = None
    watts_per_node: Figure | None = None

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.capital_usd and self.capital_eur:
            raise build_spec_error("has capital_usd and capital_eur", "give one of them")
        if not (self.capital or self.watts_per_node):
            raise build_spec_error("is empty", "give capital_usd, capital_eur or watts_per_node")
        return self

    @property
    def capital(self) -> SourcedFigure | None:
        """Return the price as declared, None if the entry gives none."""
        return self.capital_usd or self.capital_eur


@dataclass(frozen=True)
class CostGroup:
    """Nodes that are bought together: those of an entry with a price, or all nodes without one."""

    label: str
    nodes: int
    capital: SourcedFigure
    watts: SourcedFigure


def convert_capital(cost: HardwareCost | EntryCost, rate: SourcedFigure | None) -> SourcedFigure | None:
    """Return a capital in USD, None if there is none; euros are converted at the rack's planning rate."""
    if cost.capital_eur and rate:
        usd = cost.capital_eur.value * rate.value
        return cost.capital_eur.model_copy(
            update={"value": usd, "assumption": cost.capital_eur.assumption or rate.assumption}
        )
    return cost.capital_usd


def sum_group_costs(shared: HardwareCost, groups: Sequence[CostGroup]) -> HardwareCost:
    """Return the cost of a whole rack: the capital of all groups, the average power of a node, what is shared."""
    nodes = sum(group.nodes for group in groups)
    capital = _join_figures(
        sum(group.capital.value for group in groups), [(group.label, group.capital) for group in groups]
    )
    watts = _join_figures(
        sum(group.watts.value * group.nodes for group in groups) / nodes,
        [(group.label, group.watts) for group in groups],
    )
    figures = {"capital_usd": capital, "capital_eur": None, "watts_per_node": watts}
    return shared.model_copy(update=figures)


def compute_node_share(shared: HardwareCost, total: HardwareCost, group: CostGroup, nodes: int) -> float:
    """Return USD per hour of one node of a group: its own capital and power, an equal share of the rest."""
    one = SourcedFigure(value=group.capital.value / group.nodes, source=group.capital.source)
    figures = {"capital_usd": one, "capital_eur": None, "watts_per_node": group.watts}
    own = shared.model_copy(update=figures).parts_usd_per_hour(1)
    rest = sum(usd for part, usd in total.parts_usd_per_hour(nodes).items() if part not in OWN_PARTS)
    return sum(own[part] for part in OWN_PARTS) + rest / nodes


def _join_figures(value: float, figures: Iterable[tuple[str, SourcedFigure]]) -> SourcedFigure:
    """Return one figure with the sources of several, dated if each with a source is; plain numbers alone have none."""
    listed = list(figures)
    sourced = [(label, each) for label, each in listed if each.source != PLAIN_NUMBER_SOURCE]
    days = [each.as_of for _, each in sourced]
    texts = dict.fromkeys(each.source for _, each in listed)
    source = ", ".join(f"{label}: {each.source}" for label, each in listed)
    return SourcedFigure(
        value=value,
        source=next(iter(texts)) if len(texts) == 1 else source,
        as_of=None if not days or None in days else min(day for day in days if day is not None),
        assumption=any(each.assumption for _, each in listed),
    )

"""What AWS groups and fleets launch: templates, overrides with weights, and their disks and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricers import aws_parts
from gpufleet.cost.pricers.aws_instance import TEMPLATE, claim
from gpufleet.cost.pricers.aws_make import address, surcharges
from gpufleet.cost.pricers.common import named, unsaid
from gpufleet.cost.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.terms import Terms
from gpufleet.cost.values import read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
ONE_MACHINE = Decimal(1)


@dataclass(frozen=True)
class Kinds:
    """The types that may be launched, the expected one first, and what each counts for."""

    names: tuple[str, ...]
    weights: tuple[Decimal, ...]

    @property
    def weighted(self) -> bool:
        """Tell whether the size counts units and not machines."""
        return any(weight != ONE_MACHINE for weight in self.weights)

    @property
    def shares(self) -> tuple[Decimal, ...]:
        """Return how many machines of each type stand for one of the first; empty where all count alike."""
        return tuple(self.weights[0] / weight for weight in self.weights) if self.weighted else ()

    def machines(self, units: Range) -> Range:
        """Return how many machines of the first type make up so many units."""
        weight = self.weights[0]
        return units if not self.weighted else Range(*(_up(each / weight) for each in _three(units)))

    def disks(self, units: Range) -> Range:
        """Return how many machines there may be, each with its own disks: few large ones or many small ones."""
        usual = self.machines(units)
        if not self.weighted:
            return usual
        few, many = _up(units.low / max(self.weights)), _up(units.high / min(self.weights))
        return Range.spanning(few, usual.expected, many)


def template(resource: Resource, graph: Graph, *paths: tuple[str | int, ...]) -> Resource | None:
    """Return the launch template or configuration that a resource refers to, by id or name, where it is ours."""
    found = (graph.find_target(resource, path, TEMPLATE, CONFIGURATION) for path in paths)
    return next((each for each in found if each), None)


def kinds(overrides: Iterable[Any], fallback: Resource | None) -> Kinds | UnpricedComponent:
    """Return the types that overrides name, else the template's."""
    listed = list(overrides)
    if any(read_value(entry, "instanceRequirements") is not None for entry in listed):
        return UnpricedComponent(
            "its types are chosen by attributes: any that fits may be launched", "machine"
        )
    said = [(read_text(entry, "instanceType"), read_number(entry, "weightedCapacity")) for entry in listed]
    if any(isinstance(part, Marker) for pair in said for part in pair):
        return UnpricedComponent("instance type is not known until deployment", "machine")
    pairs = [(name, weight or ONE_MACHINE) for name, weight in said if isinstance(name, str)]
    if pairs:
        return Kinds(tuple(name for name, _ in pairs), tuple(Decimal(str(weight)) for _, weight in pairs))
    if fallback is None:
        return UnpricedComponent("its launch template is not in this stack", "machine")
    if read_value(fallback.inputs, "instanceRequirements") is not None:
        return UnpricedComponent(
            "its types are chosen by attributes: any that fits may be launched", "machine"
        )
    only = named(fallback.inputs, "instance type", "instanceType")
    return only if isinstance(only, UnpricedComponent) else Kinds((only,), (ONE_MACHINE,))


def claimed(
    source: Resource | None, kinds: Kinds, graph: Graph, runs: Resource | None = None
) -> ReservationClaim | None:
    """Return the reservation that machines of a template ask for; weights do not count machines."""
    return claim(source, source.inputs, graph, runs) if source and not kinds.weighted else None


def in_machines(found: Components, kinds: Kinds) -> Components:
    """Turn demands that count a group's units into demands that count machines."""
    return [
        replace(
            item,
            count=kinds.machines(item.count),
            capacity_units=item.count,
            weights=kinds.weights,
            count_ratios=kinds.shares,
        )
        if isinstance(item, CostComponent) and kinds.weighted
        else item
        for item in found
    ]


def beside(source: Resource | None, around: PartContext, runs: Resource, graph: Graph) -> Components:
    """Return the disks, addresses and surcharges of machines that ``runs`` launches from a template."""
    if source is None:
        return [
            UnpricedComponent("disks are set by a launch template that is not in this stack", "disk:root")
        ]
    if source.type == CONFIGURATION:
        found: Components = list(aws_parts.attached(source.inputs, around))
        asked = read_value(source.inputs, "associatePublicIpAddress")
    else:
        found = list(aws_parts.mapped(source.inputs, around))
        asked = read_value(source.inputs, "networkInterfaces", 0, "associatePublicIpAddress")
        if hidden := unsaid(source.inputs, "its network cards are", ADDRESS, "networkInterfaces"):
            return [*found, *hidden, *surcharges(source.inputs)]
    return [*found, *address(runs, graph, asked, around), *surcharges(source.inputs)]


def most_offered(*places: Any) -> Decimal | None:
    """Return the first price that is a number, as the most that is paid for spot."""
    found = (read_number(place) for place in places)
    return next((price for price in found if isinstance(price, Decimal) and price > ZERO), None)


def bidding(terms: Terms, *places: Any) -> Terms:
    """Return the terms with the most that is offered for spot, where somebody says it."""
    offered = most_offered(*places)
    return terms if offered is None else replace(terms, max_price=offered)


def _three(of: Range) -> tuple[Decimal, Decimal, Decimal]:
    return of.low, of.expected, of.high


def _up(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)

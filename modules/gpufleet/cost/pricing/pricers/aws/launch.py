"""What AWS groups and fleets launch: templates, types with weights, and the parts of each machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.inputs.values import Number, number_if_known, read_input
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import CostComponent, ReservationClaim
from gpufleet.cost.pricing.pricers.aws.address import list_public_address
from gpufleet.cost.pricing.pricers.aws.machine import (
    CONFIGURATION,
    MAX_PRICE,
    TEMPLATE,
    find_spot,
    list_surcharges,
    list_volumes,
)
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

ONE_MACHINE = Decimal(1)
TYPE, REQUIREMENTS = "instanceType", "instanceRequirements"
BY_ATTRIBUTES = "its types are chosen by attributes: any that fits may be launched"
TEMPLATE_OUTSIDE = "its launch template is not in this stack"
DISKS_OUTSIDE = "disks are set by a launch template that is not in this stack"


@dataclass(frozen=True)
class CapacityWeights:
    """How many capacity units a machine of each type counts for, the expected type first."""

    weights: tuple[Decimal, ...]

    @property
    def is_weighted(self) -> bool:
        """True if the group's size counts capacity units instead of machines."""
        return any(weight != ONE_MACHINE for weight in self.weights)

    def count_first(self, units: Range) -> Range:
        """Return how many machines of the first type provide so many capacity units."""
        if not self.is_weighted:
            return units
        amounts = (units.low, units.expected, units.high)
        return Range(*(_round_up(amount / self.weights[0]) for amount in amounts))

    def count_any(self, units: Range) -> Range:
        """Return how many machines there may be of any type: few large ones or many small ones."""
        machines = self.count_first(units)
        if not self.is_weighted:
            return machines
        fewest, most = _round_up(units.low / max(self.weights)), _round_up(units.high / min(self.weights))
        return Range.spanning(fewest, machines.expected, most)


def find_template(owner: Reader, *paths: str) -> StateResource | None:
    """Return the launch template or configuration that a resource refers to, if it is here.

    A template that the change updates is returned as it was if the resource keeps the earlier version.
    """
    for path in paths:
        if template := owner.find_resource(path, TEMPLATE, CONFIGURATION):
            earlier = owner.graph.find_earlier_resource(template)
            version_path = f"{path.rpartition('.')[0]}.version"
            is_kept = earlier and keeps_template_version(owner, version_path, template, earlier)
            return earlier if is_kept else template
    return None


def keeps_template_version(
    owner: Reader, version_path: str, template: StateResource, earlier_template: StateResource
) -> bool:
    """Return whether a resource launches from the version of a template before the change.

    It does with a version number that the change leaves as it was, and with ``$Default``, also EC2's choice without
    a version, unless the change moves the default version. ``$Latest`` and a version that is not known until
    deployment follow the template. Source: EC2 documentation of launch template versions; the inputs
    ``updateDefaultVersion`` and ``defaultVersion`` of the provider.
    """
    if template.type != TEMPLATE:
        return False
    version = owner.find_text(version_path)
    if version in (None, "", "$Default"):
        moves = owner.reading(template).find_flag("updateDefaultVersion") is True
        versions = [read_input(each.inputs, "defaultVersion") for each in (earlier_template, template)]
        return not moves and versions[0] == versions[1]
    earlier = owner.graph.find_earlier_resource(owner.resource)
    is_number = isinstance(version, str) and version.isdecimal()
    return is_number and earlier is not None and owner.reading(earlier).find_text(version_path) == version


def buy_machines(owner: Reader, template: StateResource | None, *max_prices: Number) -> Reader:
    """Return the reader of what a group buys by its template's market, at most at the first of the prices."""
    launch = owner.reading(template) if template else None
    prices = (*max_prices, launch.find_number(MAX_PRICE) if launch else None)
    max_price = next((price for price in map(number_if_known, prices) if price), None)
    return owner.bought(template, spot=find_spot(launch) if launch else None, max_price=max_price)


def find_offers(owner: Reader, path: str, template: StateResource | None) -> list[Reader]:
    """Return the readers of what names a machine type: overrides at a path, else the template."""
    overrides = owner.entries(path, "its types are")
    if offers := [each for each in overrides if each.has(f"{TYPE} or {REQUIREMENTS}")]:
        return offers
    if template is None:
        raise owner.refuse(TEMPLATE_OUTSIDE)
    return [owner.reading(template)]


def read_weights(offers: Iterable[Reader]) -> CapacityWeights:
    """Return the weights of offers; one without a weight counts for one unit."""
    weights = (each.number("weightedCapacity", "the weight of a type", 1) for each in offers)
    return CapacityWeights(tuple(weight or ONE_MACHINE for weight in weights))


def make_machines(
    machine: Reader, offers: list[Reader], units: Range, claim: ReservationClaim | None = None, note: str = ""
) -> CostComponent | None:
    """Return the machines that provide so many units: of the first type, or any other."""
    if any(each.has(REQUIREMENTS) for each in offers):
        raise machine.refuse(BY_ATTRIBUTES)
    names = tuple(each.text(TYPE, "instance type") for each in offers)
    capacity = read_weights(offers)
    part = machine.times(lambda: capacity.count_first(units)).machines(names[0])
    if part is None:
        return None
    part = replace(part, items=names, claim=claim, note=note)
    if not capacity.is_weighted:
        return part
    ratios = tuple(capacity.weights[0] / weight for weight in capacity.weights)
    return replace(part, capacity_units=units, weights=capacity.weights, count_ratios=ratios)


def list_launched_parts(template: StateResource | None, owner: Reader) -> Parts:
    """Yield the volumes, addresses and surcharges of machines that a group launches from a template."""
    if template is None:
        raise owner.of("disk:root").refuse(DISKS_OUTSIDE)
    launch = owner.reading(template)
    yield from list_volumes(launch)
    yield from list_public_address(launch, owner)
    yield from list_surcharges(launch)


def _round_up(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)

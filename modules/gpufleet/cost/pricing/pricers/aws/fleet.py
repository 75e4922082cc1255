"""EC2 fleets and spot fleets: a target capacity, split between on-demand and spot, of any of several types."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.inputs.values import number_if_known
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.aws.launch import (
    TEMPLATE_OUTSIDE,
    find_offers,
    find_template,
    list_launched_parts,
    make_machines,
    read_weights,
)
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.machine import bills_machine, describe_image, find_reservation_claim
from gpufleet.cost.pricing.pricers.aws.volume import list_attached_volumes
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

COUNTS_UNITS = "its capacity counts vCPUs or memory, not machines"
CAPACITY, TYPES = "its target capacity", "its types are"
CONFIGURATIONS, SPECIFICATIONS = "launchTemplateConfigs", "launchSpecifications"


@dataclass(frozen=True)
class FleetKind:
    """Where a kind of fleet has its capacity, what refers to its templates, and its overrides' offer for spot."""

    capacity: str
    total: str
    template_keys: tuple[str, str]
    max_price: str


EC2_FLEET = FleetKind(
    "targetCapacitySpecification.",
    "totalTargetCapacity",
    ("launchTemplateId", "launchTemplateName"),
    "maxPrice",
)
SPOT_FLEET = FleetKind("", "targetCapacity", ("id", "name"), "spotPrice")


@pricer("aws:ec2/fleet:Fleet")
def price_ec2_fleet(fleet: Reader) -> Parts:
    """Yield the machines of an EC2 fleet at its target capacity, and their parts."""
    return _list_fleet(fleet, EC2_FLEET)


@pricer("aws:ec2/spotFleetRequest:SpotFleetRequest")
def price_spot_fleet(fleet: Reader) -> Parts:
    """Yield the machines of a spot fleet at its target capacity, of which a part may be on demand, and their parts."""
    return _list_fleet(fleet, SPOT_FLEET)


def _list_fleet(fleet: Reader, kind: FleetKind) -> Parts:
    """Yield the machines, and the parts of the first template or specification in each of them."""
    template = _find_template(fleet, kind, 0)
    fleet = fleet.bought(template, spot=False)
    with fleet.of("machine") as machine:
        yield from _list_machines(machine, kind, template)
    parts = fleet.times(lambda: _count_machines(fleet, kind))
    if fleet.has(SPECIFICATIONS):
        yield from _list_specified_parts(parts.inside(f"{SPECIFICATIONS}.0"))
    else:
        yield from list_launched_parts(template, parts)


def _list_machines(machine: Reader, kind: FleetKind, template: StateResource | None) -> Parts:
    launch = machine.reading(template) if template else None
    if launch and not bills_machine(launch):
        return
    on_demand, spot = _find_capacity(machine, kind)
    offers = _find_offers(machine, kind)
    if on_demand.high:
        claim = None
        if launch and not read_weights(offers).is_weighted:
            claim = find_reservation_claim(launch)
        yield make_machines(machine.of("machine:on_demand"), offers, on_demand, claim)
    if spot.high:
        bought = machine.bought(template, spot=True, max_price=_find_max_price(machine, kind))
        yield make_machines(bought.of("machine:spot"), offers, spot)


def _find_capacity(fleet: Reader, kind: FleetKind) -> tuple[Range, Range]:
    """Return the units on demand and on spot, of which a size in the usage file changes those on spot."""
    path = kind.capacity
    if fleet.find_text(f"{path}targetCapacityUnitType") not in (None, "units"):
        raise fleet.refuse(COUNTS_UNITS)
    total = fleet.number(f"{path}{kind.total}", CAPACITY)
    on_demand = min(total, fleet.number(f"{path}onDemandTargetCapacity", CAPACITY, 0))
    spot = fleet.number(f"{path}spotTargetCapacity", CAPACITY, 0)
    rest = max(ZERO, total - on_demand - spot)
    if kind is SPOT_FLEET or fleet.find_text(f"{path}defaultTargetCapacityType") == "spot":
        spot += rest
    else:
        on_demand += rest
    declared = Range.from_exact_value(on_demand)
    size = fleet.resize(declared + Range.from_exact_value(spot), CAPACITY)
    return declared, size.subtract_down_to_zero(declared)


def _count_machines(fleet: Reader, kind: FleetKind) -> Range:
    """Return how many machines there may be of any type."""
    weights = read_weights(_find_offers(fleet, kind))
    return Range.sum_ranges(map(weights.count_any, _find_capacity(fleet, kind)))


def _find_offers(fleet: Reader, kind: FleetKind) -> list[Reader]:
    """Return the readers of what names a machine type: specifications, or the overrides and templates."""
    offers = fleet.entries(SPECIFICATIONS, TYPES)
    for index, configuration in enumerate(fleet.entries(CONFIGURATIONS, TYPES)):
        offers += find_offers(configuration, "overrides", _find_template(fleet, kind, index))
    if not offers:
        raise fleet.refuse(TEMPLATE_OUTSIDE)
    return offers


def _find_template(fleet: Reader, kind: FleetKind, index: int) -> StateResource | None:
    """Return the launch template of one configuration; a single one may be there without its list."""
    places = [f"{CONFIGURATIONS}.{index}"] if index else [f"{CONFIGURATIONS}.0", CONFIGURATIONS]
    paths = [f"{place}.launchTemplateSpecification.{key}" for place in places for key in kind.template_keys]
    return find_template(fleet, *paths)


def _find_max_price(fleet: Reader, kind: FleetKind) -> Decimal | None:
    """Return the fleet's offer for spot, else the highest if each override has one: else the market's price is paid."""
    if own := number_if_known(fleet.find_number("spotPrice")):
        return own
    configurations = fleet.entries(CONFIGURATIONS)
    overrides = [override for each in configurations for override in each.entries("overrides")]
    prices = [number_if_known(override.find_number(kind.max_price)) for override in overrides]
    known = [price for price in prices if price]
    return max(known) if known and len(known) == len(prices) else None


def _list_specified_parts(specification: Reader) -> Parts:
    """Yield the volumes and addresses of machines that a spot fleet describes without a launch template."""
    yield from list_attached_volumes(specification, "rootBlockDevices.0", describe_image(specification))
    with specification.of(ADDRESS) as address:
        if address.flag("associatePublicIpAddress", "whether it has a public address"):
            yield address.part(ADDRESS)

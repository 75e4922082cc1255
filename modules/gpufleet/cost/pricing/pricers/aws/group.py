"""Auto Scaling groups: machines of their launch template, split between on-demand and spot."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.inputs.terms import read_pool_tags
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import ZERO_RANGE, Range
from gpufleet.cost.pricing.pricers.aws.launch import (
    buy_machines,
    find_offers,
    find_template,
    list_launched_parts,
    make_machines,
    read_weights,
)
from gpufleet.cost.pricing.pricers.aws.location import find_possible_zones, pricer
from gpufleet.cost.pricing.pricers.aws.machine import bills_machine, find_reservation_claim
from gpufleet.cost.pricing.pricers.aws.schedule import apply_scheduled_actions
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.purchase_mix import split_on_demand_and_spot
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

STANDBY = "standby"  # the tag of a group that stays empty until spot machines are missing
MIXED = "mixedInstancesPolicy.launchTemplate"
OVERRIDES = f"{MIXED}.overrides"
TEMPLATE_PATHS = (
    f"{MIXED}.launchTemplateSpecification.launchTemplateId",
    f"{MIXED}.launchTemplateSpecification.launchTemplateName",
    "launchTemplate.id",
    "launchTemplate.name",
    "launchConfiguration",
)
DISTRIBUTION = "mixedInstancesPolicy.instancesDistribution"
SIZES = ("minSize", "desiredCapacity", "maxSize")
COUNTS_UNITS = "its size counts vCPUs or memory, not machines"


@pricer("aws:autoscaling/group:Group")
def price_auto_scaling_group(group: Reader) -> Parts:
    """Yield a group's machines and their parts, between its minimum and maximum size."""
    template = find_template(group, *TEMPLATE_PATHS)
    group = buy_machines(group, template, group.find_number(f"{DISTRIBUTION}.spotMaxPrice"))
    if spot_group := _find_spot_group(group):
        with group.of("machine") as machine:
            part = make_machines(machine, find_offers(machine, OVERRIDES, template), _find_size(machine)[0])
            note = f"in the range of {spot_group.name}"
            yield part and replace(part, count=ZERO_RANGE, note=note)
        return
    with group.of("machine") as machine:
        yield from _list_machines(machine, template)
    with group.of("warm_pool") as pool:
        if pool.has("warmPool"):
            state = text_if_known(pool.find_text("warmPool.poolState")) or "Stopped"
            raise pool.refuse(f"its warm pool ({state}) is not priced")  # stopped machines bill their disks
    yield from list_launched_parts(template, group.times(lambda: _count_machines(group, template)))


def _list_machines(machine: Reader, template: StateResource | None) -> Parts:
    """Yield the machines; those on demand and those on spot apart if the group mixes them."""
    launch = machine.reading(template) if template else None
    if launch and not bills_machine(launch):
        return
    size, note = _find_size(machine)
    offers = find_offers(machine, OVERRIDES, template)
    claim = None
    if launch and not read_weights(offers).is_weighted:
        claim = find_reservation_claim(launch, find_possible_zones(machine))
    if not machine.has(DISTRIBUTION):
        yield make_machines(machine, offers, size, claim, note)
        return
    for purchase, units in _split_by_purchase(machine, size):
        if units.high:
            bought = replace(machine, terms=replace(machine.terms, purchase=purchase))
            machines = bought.of(f"machine:{purchase}")
            yield make_machines(machines, offers, units, claim if purchase == "on_demand" else None, note)


def _count_machines(group: Reader, template: StateResource | None) -> Range:
    """Return how many machines there may be of any type."""
    weights = read_weights(find_offers(group, OVERRIDES, template))
    return weights.count_any(_find_size(group)[0])


def _split_by_purchase(machine: Reader, size: Range) -> tuple[tuple[str, Range], tuple[str, Range]]:
    """Return the units of each purchase: a base on demand, then a percentage of those above it."""
    base = machine.number(f"{DISTRIBUTION}.onDemandBaseCapacity", "the share of spot", 0)
    percent = machine.number(f"{DISTRIBUTION}.onDemandPercentageAboveBaseCapacity", "the share of spot", 100)
    on_demand, spot = split_on_demand_and_spot(size, base, percent)
    return (("on_demand", on_demand), ("spot", spot))


def _find_size(group: Reader) -> tuple[Range, str]:
    """Return how many units the group runs, and a note if scheduled actions change what is expected."""
    if group.find_text("desiredCapacityType") not in (None, "units"):
        raise group.refuse(COUNTS_UNITS)
    declared = group_size_range(*map(group.find_number, SIZES))
    scheduled, note = apply_scheduled_actions(group, declared)
    return group.resize(scheduled, "group size"), note


def _find_spot_group(group: Reader) -> StateResource | None:
    """Return the spot group that this one replaces missing machines of: its range includes on-demand."""
    own_tags = read_pool_tags(group.resource)
    if own_tags.get("gpufleet-fallback") != STANDBY:
        return None
    for other in group.graph.resources_of_types(group.resource.type):
        other_tags = read_pool_tags(other)
        is_same_pool = other_tags.get("gpufleet-pool") == own_tags.get("gpufleet-pool")
        if is_same_pool and other_tags.get("gpufleet-fallback") == "on_demand":
            return other
    return None

"""What may be chosen from: every cloud's machines with their offers, what we own, and bare parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import ceil

from gpufleet import catalog
from gpufleet.catalog import Accelerator, Machine
from gpufleet.sizing.hardware import Hardware, Offer
from gpufleet.sizing.node_hardware import build_accelerator_hardware, build_machine_hardware
from gpufleet.sizing.owned_hardware import list_owned_hardware
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import Plan

Shape = tuple[str, str, int, float, str]


def list_hardware(question: SizingRequest) -> Iterator[Hardware]:
    """Yield every kind of hardware that the question leaves open, each with its cheapest offers."""
    yield from (hardware for hardware in list_owned_hardware(question.root) if _allows_owned(question))
    if question.owned_only:
        return
    yield from list_cloud_machines(question)
    if not question.is_constrained:
        yield from (
            build_accelerator_hardware(part)
            for part in catalog.load_accelerators().values()
            if part.bandwidth_gb_s
        )


def list_cloud_machines(question: SizingRequest) -> Iterator[Hardware]:
    """Yield cloud machines, one for each shape and cloud: the one with the cheapest offer of each purchase kind."""
    best: dict[tuple[Shape, str], tuple[Machine, Offer]] = {}
    for found in catalog.search_offers(compare_by="machine"):
        machine = found.machine
        if not _has_known_accelerator(machine) or not _matches_request(
            question, machine.cloud, found.region, found.purchase
        ):
            continue
        best.setdefault((_shape(machine), found.purchase), (machine, _offer(found)))
    groups: dict[str, tuple[Machine, list[Offer]]] = {}
    for machine, offer in best.values():
        groups.setdefault(machine.name, (machine, []))[1].append(offer)
    for machine, offers in groups.values():
        hardware = build_machine_hardware(machine)
        if hardware is not None:
            yield replace(hardware, offers=tuple(offers))


def add_offers(question: SizingRequest, hardware: Hardware) -> Hardware:
    """Return one kind of hardware with its offers: a machine's own, a bare part's by what a device costs in clouds."""
    if hardware.offers or hardware.origin in ("rack", "workstation"):
        return hardware
    if hardware.origin == "cloud":
        found = catalog.search_offers(machine=hardware.machine)
        offers = [
            _offer(each)
            for each in found
            if _matches_request(question, each.machine.cloud, each.region, each.purchase)
        ]
        return replace(hardware, offers=tuple(_cheapest(offers)))
    return replace(
        hardware, offers=tuple(_offers_per_device(question, hardware.accelerator, hardware.devices_per_node))
    )


def list_plan_offers(question: SizingRequest, plan: Plan) -> tuple[Offer, ...]:
    """Return the offers of a plan's hardware; of bare parts what the cheapest machines cost that hold the plan."""
    hardware = plan.hardware
    if hardware.origin != "part" or not hardware.offers:
        return hardware.offers
    together = min(plan.layout.devices, hardware.devices_per_node)
    best: dict[str, Offer] = {}
    for found in _offers_with_accelerator(question, hardware.accelerator):
        carried = found.machine.accelerators[0].count
        if carried < together:
            continue
        machines = ceil(plan.devices / carried)
        usd = found.price.usd_per_hour * machines / plan.nodes
        known = best.get(found.purchase)
        if known is None or usd < (known.usd_per_hour or 0.0):
            best[found.purchase] = _accelerator_offer(found, usd, f"{machines} x {found.machine.name}")
    return tuple(best.values()) or hardware.offers


def _offers_per_device(question: SizingRequest, part: Accelerator, per_node: int) -> Iterator[Offer]:
    """Yield what a node of bare parts would cost at a cloud's cheapest price for one of them."""
    seen = set()
    for found in _offers_with_accelerator(question, part):
        if found.purchase not in seen:
            seen.add(found.purchase)
            usd = found.price.usd_per_hour / found.machine.accelerators[0].count * per_node
            yield _accelerator_offer(found, usd, f"a device of {found.machine.name}")


def _offers_with_accelerator(question: SizingRequest, part: Accelerator) -> Iterator[catalog.MachineOffer]:
    """Yield the wanted offers of machines with that part, whole cards only, cheapest for a device first."""
    for found in catalog.search_offers(accelerator=part.name, compare_by="accelerator"):
        carried = found.machine.accelerators[0]
        whole = carried.model == part.name and carried.share == 1.0
        if whole and _matches_request(question, found.machine.cloud, found.region, found.purchase):
            yield found


def _accelerator_offer(found: catalog.MachineOffer, usd: float, what: str) -> Offer:
    source = f"as {what} ({found.machine.cloud} {found.region}): {found.price.source}"
    return Offer(found.machine.cloud, found.region, found.purchase, usd, found.price.as_of, source)


def _has_known_accelerator(machine: Machine) -> bool:
    """Tell whether the machine carries something that the catalogue has figures for."""
    return bool(machine.accelerators) and machine.accelerators[0].model in catalog.load_accelerators()


def _offer(found: catalog.MachineOffer) -> Offer:
    price = found.price
    return Offer(
        found.machine.cloud, found.region, found.purchase, price.usd_per_hour, price.as_of, price.source
    )


def _cheapest(offers: list[Offer]) -> Iterator[Offer]:
    """Yield the cheapest offer of each purchase kind."""
    kinds = dict.fromkeys(offer.purchase for offer in offers)
    for kind in kinds:
        yield min(
            (offer for offer in offers if offer.purchase == kind), key=lambda offer: offer.usd_per_hour or 0.0
        )


def _matches_request(question: SizingRequest, cloud: str, region: str, purchase: str) -> bool:
    asked = ((question.clouds, cloud), (question.regions, region), (question.purchases, purchase))
    return all(not wanted or have in wanted for wanted, have in asked)


def _allows_owned(question: SizingRequest) -> bool:
    return not (question.clouds or question.regions) and (
        not question.purchases or "owned" in question.purchases
    )


@cache
def _shape(machine: Machine) -> Shape:
    carried = machine.accelerators[0]
    return (machine.cloud, carried.model, carried.count, carried.share, machine.fabric or "")

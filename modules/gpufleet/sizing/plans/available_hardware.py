"""The market: cloud machines with their offers, owned hardware and bare accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from math import ceil
from typing import overload

from gpufleet import catalog
from gpufleet.catalog import Accelerator, Machine
from gpufleet.catalog.accelerator import list_accelerator_names
from gpufleet.catalog.cheapest_offer import find_cheapest_offers
from gpufleet.sizing.hardware import Hardware, HardwareOffer
from gpufleet.sizing.node_hardware import build_accelerator_hardware, build_machine_hardware
from gpufleet.sizing.owned_hardware import list_owned_hardware
from gpufleet.sizing.plans.dependability import is_old_date, is_stale
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.reserved_memory import subtract_reserved_memory
from gpufleet.sizing.plans.result import SizingPlan

Shape = tuple[str, str, int, float, str]


class BareAccelerators(Sequence[Hardware]):
    """The accelerators of the catalogue in their default hosts, without offers; built when the first is asked for."""

    def __init__(self, request: SizingRequest) -> None:
        self._request = request
        is_permitted = not (request.owned_only or request.has_offer_constraints)
        self._names = list_accelerator_names("bandwidth_gb_s") if is_permitted else []

    @cached_property
    def _hardware(self) -> list[Hardware]:
        accelerators = catalog.load_accelerators()
        kinds = (build_accelerator_hardware(accelerators[name]) for name in self._names)
        return [subtract_reserved_memory(hardware, self._request) for hardware in kinds]

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Hardware: ...

    @overload
    def __getitem__(self, index: slice) -> list[Hardware]: ...

    def __getitem__(self, index: int | slice) -> Hardware | list[Hardware]:
        return self._hardware[index]


def list_offered_hardware(request: SizingRequest) -> Iterator[Hardware]:
    """Yield owned hardware and cloud machines that the request permits, each with its cheapest offers."""
    yield from (hardware for hardware in list_owned_hardware(request.project_root) if _allows_owned(request))
    if request.owned_only:
        return
    yield from list_permitted_cloud_machines(request)


def list_permitted_cloud_machines(request: SizingRequest) -> Iterator[Hardware]:
    """Yield cloud machines: for each cloud, shape and purchase kind the one with the cheapest offer.

    The cheapest offer with a stale price does not hide the cheapest with a newer one: both are in the result.
    """
    groups: dict[str, tuple[Machine, list[HardwareOffer]]] = {}
    for machine_offer in find_cheapest_offers(
        _find_shape,
        lambda cloud, region, purchase: _matches_request(request, cloud, region, purchase),
        lambda as_of: is_old_date(as_of, request.day),
    ):
        machine = machine_offer.machine
        groups.setdefault(machine.name, (machine, []))[1].append(_offer(machine_offer))
    for machine, offers in groups.values():
        hardware = build_machine_hardware(machine)
        if hardware is not None:
            yield replace(hardware, offers=tuple(offers))


def with_permitted_offers(request: SizingRequest, hardware: Hardware) -> Hardware:
    """Return the hardware with its offers; a bare accelerator is priced as a device of cloud machines."""
    if hardware.offers or hardware.host or hardware.origin in ("rack", "workstation"):
        return hardware  # no cloud rents a card in a host of one's own
    if hardware.origin == "cloud":
        machine_offers = _search_machine_offers(hardware)
        offers = [
            _offer(machine_offer)
            for machine_offer in machine_offers
            if _matches_request(
                request, machine_offer.machine.cloud, machine_offer.region, machine_offer.purchase
            )
        ]
        return replace(hardware, offers=tuple(_cheapest(offers, request.day)))
    return replace(
        hardware, offers=tuple(_offers_per_device(request, hardware.accelerator, hardware.devices_per_node))
    )


def _search_machine_offers(hardware: Hardware) -> Iterator[catalog.MachineOffer]:
    """Yield the offers of a machine, with its attached cards if it has some."""
    if not hardware.attached_card:
        yield from catalog.search_offers(machine=hardware.machine)
        return
    from gpufleet.catalog.attached_offer import iterate_offers_with_card
    from gpufleet.catalog.price_query import find_machine

    machine = find_machine(hardware.machine, "gcp")
    if machine is not None:
        offers = iterate_offers_with_card(machine, hardware.attached_card)
        yield from (each for each in offers if each.accelerator_count == hardware.devices_per_node)


def list_plan_offers(request: SizingRequest, plan: SizingPlan) -> tuple[HardwareOffer, ...]:
    """Return the offers for a plan; a bare accelerator is priced as the cheapest machines on which the plan fits."""
    hardware = plan.hardware
    if hardware.origin != "accelerator" or not hardware.offers:
        return hardware.offers
    devices_per_node = min(plan.layout.devices, hardware.devices_per_node)
    best: dict[tuple[str, bool], HardwareOffer] = {}
    for machine_offer in _offers_with_accelerator(request, hardware.accelerator):
        device_count = machine_offer.machine.accelerators[0].count
        if device_count < devices_per_node:
            continue
        machines = ceil(plan.devices / device_count)
        usd = machine_offer.price.usd_per_hour * machines / plan.nodes
        kind = (machine_offer.purchase, is_old_date(machine_offer.price.as_of, request.day))
        known = best.get(kind)
        if known is None or usd < (known.usd_per_hour or 0.0):
            best[kind] = _accelerator_offer(machine_offer, usd, f"{machines} x {machine_offer.machine.name}")
    return tuple(best.values()) or hardware.offers


def _offers_per_device(
    request: SizingRequest, accelerator: Accelerator, per_node: int
) -> Iterator[HardwareOffer]:
    """Yield offers for a node of bare accelerators at a cloud's cheapest price per device."""
    seen = set()
    for machine_offer in _offers_with_accelerator(request, accelerator):
        kind = (machine_offer.purchase, is_old_date(machine_offer.price.as_of, request.day))
        if kind not in seen:
            seen.add(kind)
            usd = machine_offer.price.usd_per_hour / machine_offer.machine.accelerators[0].count * per_node
            yield _accelerator_offer(machine_offer, usd, f"a device of {machine_offer.machine.name}")


def _offers_with_accelerator(
    request: SizingRequest, accelerator: Accelerator
) -> Iterator[catalog.MachineOffer]:
    """Yield permitted offers of machines with that accelerator (full cards only), cheapest per device first."""
    for machine_offer in catalog.search_offers(accelerator=accelerator.name, compare_by="accelerator"):
        attached = machine_offer.machine.accelerators[0]
        is_full_device = attached.model == accelerator.name and attached.share == 1.0
        if is_full_device and _matches_request(
            request, machine_offer.machine.cloud, machine_offer.region, machine_offer.purchase
        ):
            yield machine_offer


def _accelerator_offer(machine_offer: catalog.MachineOffer, usd: float, what: str) -> HardwareOffer:
    source = f"as {what} ({machine_offer.machine.cloud} {machine_offer.region}): {machine_offer.price.source}"
    return HardwareOffer(
        machine_offer.machine.cloud,
        machine_offer.region,
        machine_offer.purchase,
        usd,
        machine_offer.price.as_of,
        source,
    )


def _offer(machine_offer: catalog.MachineOffer) -> HardwareOffer:
    price = machine_offer.price
    return HardwareOffer(
        machine_offer.machine.cloud,
        machine_offer.region,
        machine_offer.purchase,
        price.usd_per_hour,
        price.as_of,
        price.source,
    )


def _cheapest(offers: list[HardwareOffer], day: date) -> Iterator[HardwareOffer]:
    """Yield the cheapest offer of each purchase kind: of the stale prices, and of the others."""
    kinds: dict[tuple[str, bool], HardwareOffer] = {}
    for offer in sorted(offers, key=lambda offer: offer.usd_per_hour or 0.0):
        kinds.setdefault((offer.purchase, is_stale(offer, day)), offer)
    yield from kinds.values()


def _matches_request(request: SizingRequest, cloud: str, region: str, purchase: str) -> bool:
    return (
        (not request.clouds or cloud in request.clouds)
        and (not request.regions or region in request.regions)
        and (not request.purchases or purchase in request.purchases)
    )


def _allows_owned(request: SizingRequest) -> bool:
    return not (request.clouds or request.regions) and (not request.purchases or "owned" in request.purchases)


def _find_shape(machine: Machine) -> Shape | None:
    """Return what machines are compared by; None without an accelerator that the catalogue has figures of."""
    if not machine.accelerators or machine.accelerators[0].model not in catalog.load_accelerators():
        return None
    card = machine.accelerators[0]
    return (machine.cloud, card.model, card.count, card.share, machine.fabric or "")

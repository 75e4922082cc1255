"""What a Compute Engine machine asks for: an instance, a template, a node pool or a reservation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    list_if_known,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.gcp.disk import LOCAL_SSD, local_ssds_to_match, parse_local_ssd_interfaces
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import UnreadableValue

FLEX_START = "starts through the Dynamic Workload Scheduler, whose rates are not in the price list"
CARD_PREFIX = "accelerator:"
RESERVATION = "gcp:compute/reservation:Reservation"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation that no resource here is


@dataclass(frozen=True)
class AcceleratorInputs:
    """The accelerators of one model. ``description`` is how a reservation and a machine are compared."""

    model: Text
    count: Number
    description: str


@dataclass(frozen=True)
class MachineInputs:
    """The inputs of a machine, whatever declares it. A reserved address bills where it is declared."""

    machine_type: Text
    is_spot: bool | UnreadableValue | None
    is_flex_start: bool
    cards: tuple[AcceleratorInputs, ...]
    hidden_cards: UnreadableValue | None
    local_ssd_interfaces: tuple[str, ...]
    images: tuple[str, ...]
    hides_image: bool
    address_count: int
    hidden_interfaces: UnreadableValue | None


def parse_machine_inputs(inputs: Any) -> MachineInputs:
    """Parse the machine of an instance, a template, a node pool's configuration or a reservation."""
    images = [
        read_input_text(inputs, "bootDisk", "initializeParams", "image"),
        read_input_text(inputs, "imageType"),
    ]
    images += [read_input_text(disk, "sourceImage") for disk in read_input_list(inputs, "disks")]
    interfaces = read_input_list(inputs, "networkInterfaces")
    return MachineInputs(
        machine_type=read_input_text(inputs, "machineType"),
        is_spot=_parse_spot(inputs),
        is_flex_start=read_input_text(inputs, "scheduling", "provisioningModel") == "FLEX_START",
        cards=tuple(map(_parse_card, read_input_list(inputs, "guestAccelerators"))),
        hidden_cards=read_input_marker(inputs, "guestAccelerators"),
        local_ssd_interfaces=parse_local_ssd_interfaces(inputs),
        images=tuple(image for image in images if isinstance(image, str)),
        hides_image=any(isinstance(image, UnreadableValue) for image in images),
        address_count=sum(map(_count_new_addresses, interfaces)),
        hidden_interfaces=_find_hidden_interface(inputs),
    )


def machine_components(
    machine: MachineInputs, region: str, terms: PurchaseTerms, count: Range = ONE
) -> Components:
    """Return a machine type, and the cards that its price does not include."""
    machine_type = text_or_unpriced(machine.machine_type, "machine type")
    if isinstance(machine_type, UnpricedComponent):
        reason = f"{machine_type.reason}: its price may include accelerators"
        return [
            machine_type,
            *(UnpricedComponent(reason, _card_name(index)) for index in range(len(machine.cards))),
        ]
    name = last_url_segment(machine_type)
    if machine.is_flex_start:
        return [UnpricedComponent(f"{name} {FLEX_START}", "machine")]
    component = CostComponent(
        "machine", (name,), "gcp", region, count, terms=terms, hours_per_month=terms.billed_hours_per_month
    )
    hidden = unpriced_if_unreadable(machine.hidden_cards, "its accelerators are", "accelerators")
    return [
        component,
        *_card_components(component, machine.cards),
        *([] if includes_cards(name) else hidden),
    ]


def image_licence_components(machine: MachineInputs) -> Components:
    """Return the licence of the image that a machine boots from."""
    licences = (system_licence_components(image) for image in machine.images)
    unknown = system_licence_components(None) if machine.hides_image else []
    return [*next((components for components in licences if components), unknown)]


def external_address_components(
    machine: MachineInputs, context: MachinePartContext, *, is_spot: bool
) -> Components:
    """Return the external addresses of a machine; those of spot machines are cheaper."""
    hidden = unpriced_if_unreadable(machine.hidden_interfaces, "its network cards are", ADDRESS)
    if not machine.address_count:
        return [*hidden]
    return [*hidden, address_component(Decimal(machine.address_count), context, is_spot=is_spot)]


def address_component(count: Decimal, context: MachinePartContext, *, is_spot: bool) -> CostComponent:
    """Return the external addresses of each machine; those of spot machines are cheaper."""
    addresses = context.make_part_component(ADDRESS, ADDRESS, count)
    return replace(addresses, terms=replace(addresses.terms, purchase="spot")) if is_spot else addresses


def reservation_attributes(machine: MachineInputs) -> tuple[str, ...]:
    """Return what a reservation and a machine in it must have in common: cards and local SSDs."""
    name = last_url_segment(text_if_known(machine.machine_type) or "")
    cards = [] if includes_cards(name) else sorted(card.description for card in machine.cards)
    local_ssds = local_ssds_to_match(name, machine.local_ssd_interfaces)
    return ("+".join(cards), "+".join(local_ssds))


def with_reservation_claim(components: Components, claim: ReservationClaim | None) -> Components:
    """Return the components with the claim on those that a reservation covers."""
    return [
        replace(component, claim=claim)
        if isinstance(component, CostComponent) and _is_reservable(component)
        else component
        for component in components
    ]


def _count_new_addresses(interface: Any) -> int:
    """Return how many external addresses a network interface gets that are not reserved ones."""
    configs = read_input_list(interface, "accessConfigs")
    return sum(read_input(config, "natIp") in (None, "") for config in configs)


def _find_hidden_interface(inputs: Any) -> UnreadableValue | None:
    """Return why network cards cannot be read: all of them, or an address of one."""
    configs = (
        config
        for interface in list_if_known(read_input(inputs, "networkInterfaces"))
        for config in list_if_known(read_input(interface, "accessConfigs"))
    )
    is_hidden = any(not isinstance(config, dict) for config in configs)
    hidden = read_input_marker(inputs, "networkInterfaces")
    return hidden or (UnreadableValue.UNKNOWN if is_hidden else None)


def _parse_card(card: Any) -> AcceleratorInputs:
    model = read_input(card, "type") or read_input(card, "acceleratorType")
    count = read_input(card, "count") or read_input(card, "acceleratorCount")
    count_key = "count" if read_input(card, "count") is not None else "acceleratorCount"
    return AcceleratorInputs(
        model=read_input_text(card, "type") or read_input_text(card, "acceleratorType"),
        count=read_input_number(card, count_key),
        description=f"{last_url_segment(str(model))} x {count}",
    )


def _parse_spot(inputs: Any) -> bool | UnreadableValue | None:
    """Return whether the scheduling is spot; None if it has no such setting."""
    model = read_input_text(inputs, "scheduling", "provisioningModel")
    if isinstance(model, str):
        return model.upper() == "SPOT"
    preemptible = read_input(inputs, "scheduling", "preemptible")
    if isinstance(model, UnreadableValue) or preemptible is None:
        return model
    return preemptible if isinstance(preemptible, (bool, UnreadableValue)) else None


def _card_components(
    machine: CostComponent, cards: tuple[AcceleratorInputs, ...]
) -> Iterator[CostComponent | UnpricedComponent]:
    for index, card in enumerate(cards):
        name = _card_name(index)
        if card.count == 0:
            continue
        if not isinstance(card.model, str) or not isinstance(card.count, Decimal):
            markers = (value for value in (card.model, card.count) if isinstance(value, UnreadableValue))
            reason = next((MARKER_REASONS[marker] for marker in markers), "not set")
            yield UnpricedComponent(f"accelerator type or count is {reason}", name)
        elif not includes_cards(machine.items[0]):
            item = f"{CARD_PREFIX}{last_url_segment(card.model)}"
            yield replace(machine, component=name, items=(item,), size=card.count, is_part=True)


def _card_name(index: int) -> str:
    return f"accelerators:{index}" if index else "accelerators"


def includes_cards(machine_type: str) -> bool:
    """Return whether a machine type's price includes its cards: only N1 and custom types attach them."""
    return not machine_type.startswith(("n1-", "custom-"))


def _is_reservable(component: CostComponent) -> bool:
    """Return whether a reservation covers such a component: not other disks, nor addresses."""
    item = component.items[0]
    return not component.is_part or item.startswith(CARD_PREFIX) or item == LOCAL_SSD

"""What a Compute Engine machine bills, whatever declares it: an instance, a template, a node pool or a reservation.

Its reader has the inputs in which ``machineType`` is, the terms on which it is bought, and how many there are.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.catalog.attachable_card import CARD_PREFIX
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import CostComponent, ReservationClaim
from gpufleet.cost.pricing.pricers.gcp.disk import LOCAL_SSD, find_local_ssds_to_match
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, normalize_name
from gpufleet.cost.pricing.pricers.licence import list_licences, system_licence_components
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader, Unpriced
from gpufleet.engine import UnreadableValue

# Machine types of TPU hosts, which end with their chips (cloud.google.com/tpu/docs, "Plan TPUs in GKE").
TPU_MACHINE = re.compile(r"(ct3p?|ct4p|ct5lp?|ct5p|ct6e)-[a-z]+-(\d{1,2})t(?:pu)?")
TPU_VERSIONS = {
    "ct3": "v3",
    "ct3p": "v3",
    "ct4p": "v4",
    "ct5l": "v5e",
    "ct5lp": "v5e",
    "ct5p": "v5p",
    "ct6e": "v6e",
}
FLEX_START = "starts through the Dynamic Workload Scheduler, whose rates are not in the price list"
CARDS, CARD_TYPE = "guestAccelerators", "type or acceleratorType"
CARD_COUNT = "count or acceleratorCount or coreCount"
IMAGES = ("bootDisk.initializeParams.image", "imageType")
RESERVATION = "gcp:compute/reservation:Reservation"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation that no resource here is


def find_machine_type(machine: Reader) -> str:
    """Return the machine type; empty if it is not known."""
    return last_url_segment(text_if_known(machine.find_text("machineType")) or "")


def find_spot(machine: Reader) -> bool | UnreadableValue | None:
    """Return whether the scheduling is spot; None if it has no such setting."""
    model = machine.find_text("scheduling.provisioningModel")
    if isinstance(model, str):
        return model.upper() == "SPOT"
    return machine.find_flag("scheduling.preemptible") if model is None else model


def find_any_flag(machine: Reader, *paths: str) -> bool | UnreadableValue | None:
    """Return true if one of the inputs is, else the marker of one that cannot be read; None if none is true."""
    flags = [machine.find_flag(path) for path in paths]
    return True in flags or next((flag for flag in flags if isinstance(flag, UnreadableValue)), None)


def with_default_type(machine: Reader, machine_type: Any) -> Reader:
    """Return the reader with the machine type that a service chooses where a program has none."""
    if machine.has("machineType"):
        return machine
    return replace(machine, inputs={**(machine.inputs or {}), "machineType": machine_type})


def list_machine(machine: Reader, cards: str = CARDS, *, is_flex_start: bool = False) -> Parts:
    """Yield a machine by its type, and the cards that its price does not include, which an input has."""
    is_flex_start = is_flex_start or machine.find_text("scheduling.provisioningModel") == "FLEX_START"
    with machine.of("machine") as part:
        name = last_url_segment(part.text("machineType", "machine type"))
        if is_flex_start:
            raise part.refuse(f"{name} {FLEX_START}")
        tpu = TPU_MACHINE.fullmatch(name)
        if tpu:  # bills its chips
            item, chips = f"tpu:{TPU_VERSIONS[tpu[1]]}", Decimal(tpu[2])
            yield part.machines(item, size=chips, is_part=True)
        else:
            yield part.machines(name)
    machine_type = find_machine_type(machine)
    if not cards or is_flex_start or (machine_type and _includes_cards(machine_type)):
        return
    with machine.of("accelerators") as accelerators:
        for index, card in enumerate(accelerators.entries(cards, "its accelerators are")):
            component = f"accelerators:{index}" if index else "accelerators"
            with card.of(component) as part:
                machine.of(component).text(
                    "machineType", "machine type, whose price may include accelerators,"
                )
                name = normalize_name(part.text(CARD_TYPE, "accelerator type"))
                number = part.number(CARD_COUNT, "accelerator count")
                yield part.machines(f"{CARD_PREFIX}{name}", size=number, is_part=True)


def list_image_licence(machine: Reader) -> Parts:
    """Yield the licence of the image that a machine boots from."""
    images = [machine.find_text(path) for path in IMAGES]
    with suppress(Unpriced):  # its disks are listed without a price
        images += [disk.find_text("sourceImage") for disk in machine.entries("disks")]
    systems: list[str | None] = [image for image in images if isinstance(image, str)]
    systems += [None for image in images if isinstance(image, UnreadableValue)]
    licensed = (system for system in systems if system_licence_components(system))
    return list_licences(machine, next(licensed, ""))


def list_addresses(machine: Reader) -> Parts:
    """Yield the external addresses of a machine's network cards; a reserved one bills where it is declared."""
    with machine.of(ADDRESS) as part:
        interfaces = part.entries("networkInterfaces", "its network cards are")
        configs = [
            config for each in interfaces for config in each.entries("accessConfigs", "its addresses are")
        ]
        nat_ips = [config.inside("", "its address").find_text("natIp") for config in configs]
        yield make_address(part, sum(address in (None, "") for address in nat_ips))


def make_address(machine: Reader, number: int = 1) -> CostComponent | None:
    """Return the external addresses of each machine; those of spot machines are cheaper."""
    part = machine.part(ADDRESS, size=Decimal(number))
    is_spot = machine.terms.purchase == "spot"
    return replace(part, terms=replace(part.terms, purchase="spot")) if part and is_spot else part


def find_reservation_attributes(machine: Reader) -> tuple[str, ...]:
    """Return what a reservation and a machine in it must have in common: cards and local SSDs."""
    machine_type = find_machine_type(machine)
    cards: list[str] = []
    with suppress(Unpriced):  # its accelerators are listed without a price
        cards += map(_describe_card, machine.entries(CARDS))
    local_ssds = find_local_ssds_to_match(machine, machine_type)
    return ("" if _includes_cards(machine_type) else "+".join(sorted(cards)), "+".join(local_ssds))


def with_reservation_claim(parts: Parts, claim: ReservationClaim | None) -> Parts:
    """Yield the parts, with the claim on those that a reservation covers: not other disks, nor addresses."""
    for part in parts:
        yield replace(part, claim=claim) if isinstance(part, CostComponent) and _is_reservable(part) else part


def _includes_cards(machine_type: str) -> bool:
    """Return whether a machine type's price includes its cards: only N1 and custom types attach them."""
    return not machine_type.startswith(("n1-", "custom-"))


def _is_reservable(part: CostComponent) -> bool:
    item = part.items[0]
    return not part.is_part or item.startswith(CARD_PREFIX) or item == LOCAL_SSD


def _describe_card(card: Reader) -> str:
    return f"{last_url_segment(str(card.find_text(CARD_TYPE)))} x {card.find_number(CARD_COUNT)}"

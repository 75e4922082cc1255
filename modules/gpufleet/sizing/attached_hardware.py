"""Machines with attached cards, as people write them: ``n1-standard-8 + 2x V100``."""

from __future__ import annotations

import re
from dataclasses import replace

from gpufleet.catalog import Machine, price_query
from gpufleet.catalog.attachable_card import CARD_ACCELERATORS, CARD_TYPES
from gpufleet.catalog.attached_offer import list_card_counts, with_cards
from gpufleet.catalog.query import get_machine
from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.node_hardware import build_machine_hardware

CLOUD = "gcp"  # the only one that attaches cards to machines
MACHINE_AND_CARDS = re.compile(
    r"^(?P<machine>[^+\s]*)\s*\+\s*(?:(?P<count>\d{1,3})\s*(?:x\s*|\s))?(?P<card>.*)$", re.IGNORECASE
)
EXAMPLE = "Google's n1-standard machines take some: n1-standard-8 + T4"
IGNORED_WORDS = {"nvidia", "tesla", "gpu", "x"}


def find_attached_hardware(query: str) -> Hardware | None:
    """Return the machine with its cards for ``MACHINE + [COUNT x] CARD``, None for a name without a plus sign.

    Raise InputError for an unknown machine or card, and for a number of cards that the machine does not take.
    """
    match = MACHINE_AND_CARDS.match(query)
    if match is None:
        return None
    machine = _find_machine(match["machine"].strip().lower())
    card = _find_card(match["card"], machine)
    count = int(match["count"] or 1)
    _check_count(machine, card, count)
    hardware = build_machine_hardware(with_cards(machine, card, count))
    if hardware is None:
        raise ValueError(f"{machine.name} with {card} has no accelerator")
    name = f"{machine.name} + {f'{count}x ' if count > 1 else ''}{card}"
    return replace(hardware, name=name, attached_card=card)


def list_attachable_cards(machine: Machine) -> list[str]:
    """Return the cards that a machine takes and the catalogue has figures of."""
    return [card for card in CARD_ACCELERATORS if list_card_counts(machine, card)]


def _find_machine(name: str) -> Machine:
    if not name:
        raise _error("names no machine before the +", "for example n1-standard-8 + T4")
    machine = price_query.find_machine(name, CLOUD)
    if machine is None:
        try:
            get_machine(name, CLOUD if name.startswith("n1-") else None)
        except InputError as error:
            raise _error(error.problem, error.remedy) from None
        raise _error(f"{name} takes no attached cards", EXAMPLE)
    if machine.accelerators:
        raise _error(
            f"{machine.name} takes no attached cards: it has {machine.accelerators[0].model}", EXAMPLE
        )
    if not list_attachable_cards(machine):
        raise _error(f"the catalogue has no cards for {machine.name}", EXAMPLE)
    return machine


def _find_card(text: str, machine: Machine) -> str:
    words = re.findall(r"[a-z0-9]+", text.lower())
    query = "".join(word for word in words if word not in IGNORED_WORDS).removesuffix("16gb")
    cards = list_attachable_cards(machine)
    card = next((each for each in CARD_TYPES if each.lower() == query), "")
    if card not in cards:
        example = f"{machine.name} + {cards[0]}"
        problem = (
            f"{text.strip()!r} cannot be attached to {machine.name}" if query else "names no card after the +"
        )
        raise _error(problem, f"it takes {' or '.join(cards)}: {example}")
    return card


def _check_count(machine: Machine, card: str, count: int) -> None:
    limits = list_card_counts(machine, card)
    if count not in limits:
        counts = ", ".join(map(str, limits))
        raise _error(f"{count} x {card} cannot be attached to {machine.name}", f"it takes {counts}")
    most = limits[count]
    if machine.vcpus > most:
        fitting = [each for each, vcpus in limits.items() if vcpus >= machine.vcpus]
        problem = (
            f"{machine.name} has {machine.vcpus} vCPUs: with {count} x {card} it may have at most {most}"
        )
        more = f"attach {fitting[0]}, or " if fitting else ""
        raise _error(problem, f"{more}name a smaller machine")


def _error(problem: str, remedy: str) -> InputError:
    return InputError(problem, where="--on", remedy=remedy)

"""Cards by the name that their driver gives, and the floors of their rates: `data/cards.csv`, `data/card_floors.csv`.

A card's metric is the check's own with the card before it: `gpu_memory.copy_gb_per_s` of an L4 is
`l4_copy_gb_per_s`. A card that no file names has one too, after the driver's name: `geforce_rtx_4090_copy_gb_per_s`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from gpufleet.boundary import read_table
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    Raw,
    Reading,
    find_lowest,
    mapping_or_empty,
    to_finite_number,
)

PACKAGE = "gpufleet.burnin"
NAME_SEPARATOR = " | "
# Drivers put it first, or not: `NVIDIA A100-SXM4-40GB` was `A100-SXM4-40GB` before driver 470.
VENDOR = re.compile(r"(?:nvidia|amd|advanced micro devices|intel(?:\(r\))?)\s+", re.IGNORECASE)
# Vulkan's drivers add the chip: `AMD Radeon RX 7900 XTX (RADV NAVI31)`.
CHIP = re.compile(r"\s*\([^)]*\)\s*$")
LONGEST_CARD, MOST_CARDS = 60, 64

RateReader = Callable[[Raw], Reading]


@dataclass(frozen=True)
class Card:
    """A kind of card: its name in metrics, the catalogue's name, and the names that drivers give to it."""

    card: str
    catalogue: str
    names: str


@dataclass(frozen=True)
class CardFloor:
    """The floors of one rate of a card, below the slowest figure of a healthy one; or the reason for none."""

    check: str
    card: str
    metric: str
    source: str
    date: date
    fail_below: float | None
    warn_below: float | None
    slowest: float | None
    basis: str = ""


@cache
def load_cards() -> tuple[Card, ...]:
    """Return the cards that have names of their own in metrics."""
    return tuple(read_table(Card, PACKAGE, "data/cards.csv"))


@cache
def load_card_floors() -> tuple[CardFloor, ...]:
    """Return the floors of cards, each with its source."""
    return tuple(read_table(CardFloor, PACKAGE, "data/card_floors.csv"))


@cache
def map_cards_by_name() -> dict[str, tuple[str, ...]]:
    """Return the cards that a driver's name stands for: one may belong to a larger kind too."""
    names: dict[str, tuple[str, ...]] = {}
    for card in load_cards():
        for name in card.names.split(NAME_SEPARATOR):
            key = normalize_card_name(name)
            names[key] = (*names.get(key, ()), card.card)
    return names


@cache
def map_cards_by_catalogue() -> dict[str, str]:
    """Return the card of each name of the catalogue: of several the narrowest, which fewest drivers' names mean."""
    cards = sorted(load_cards(), key=lambda card: -len(card.names.split(NAME_SEPARATOR)))
    return {normalize_card_name(card.catalogue): card.card for card in cards}


def normalize_card_name(name: str) -> str:
    """Return a driver's name as metrics have it: `NVIDIA GeForce RTX 4090` is `geforce_rtx_4090`."""
    plain = CHIP.sub("", VENDOR.sub("", name[:200].strip(), count=1))
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:LONGEST_CARD]


@cache
def list_cards_of_name(name: str) -> tuple[str, ...]:
    """Return what a driver's name is called in metrics: kinds of cards first, then the name itself."""
    key = normalize_card_name(name)
    return tuple(dict.fromkeys((*map_cards_by_name().get(key, ()), key))) if key else ()


def list_cards_of_device(device: Raw) -> tuple[str, ...]:
    """Return what a device is called in metrics; nothing where its record has no name."""
    name = device.get("name")
    return list_cards_of_name(name[:200]) if isinstance(name, str) else ()


def read_card_rates(
    devices: Sequence[Raw], rates: dict[str, RateReader], explain: RateReader
) -> dict[str, Reading]:
    """Return each rate over all devices, and again for each kind of card; ``explain`` says why a device has none.

    A card's own rate does not apply where the operator lowered the power limit: floors were measured at the default.
    """
    readings: dict[str, Reading] = {}
    for metric, read in rates.items():
        values = [(device, explain(device) or read(device)) for device in devices]
        readings[metric] = find_lowest(value for _, value in values)
        cards = dict.fromkeys(card for device in devices for card in list_cards_of_device(device))
        for card in list(cards)[:MOST_CARDS]:
            readings[f"{card}_{metric}"] = find_lowest(
                NOT_APPLICABLE if has_lower_power_limit(device) else value
                for device, value in values
                if card in list_cards_of_device(device)
            )
    return readings


def list_collective_cards(names: Iterable[str], count: int) -> list[str]:
    """Return what the GPUs of one collective are called in metrics, with and without their number; equal ones only."""
    different = {name.strip() for name in names}
    if len(different) != 1:
        return []
    cards = list_cards_of_name(different.pop()[:200])
    return [name for card in cards for name in (card, f"{card}_x{count}")]


def has_lower_power_limit(device: Raw) -> bool:
    """Return whether the operator lowered the power limit of a device."""
    limits = mapping_or_empty(device.get("limits"))
    limit, default = (
        to_finite_number(limits.get(name)) for name in ("power_limit_mw", "default_power_limit_mw")
    )
    return limit is not None and default is not None and limit < default

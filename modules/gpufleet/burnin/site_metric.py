"""Which metric an entry of the site's file means: of a check, or of one kind of card; unknown ones are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Protocol

from gpufleet.boundary import make_printable
from gpufleet.burnin.card import (
    list_cards_of_name,
    load_card_floors,
    load_cards,
    map_cards_by_catalogue,
    normalize_card_name,
)
from gpufleet.burnin.check_definition import ThresholdEntry, load_checks
from gpufleet.burnin.thresholds import COLLECTIVE, find_card_peak, find_metric, find_peak
from gpufleet.errors import InputError

# More of these is better, so a bound without a direction is a floor.
RATES = re.compile(r"(?:[GMk]?B|[TGM]?FLOP|[GM]?op|Mbit|Gbit|rounds)/s|IOPS|MHz")
SIMILARITY = 0.6


class MetricEntry(Protocol):
    """What an entry says of its metric."""

    check: str
    metric: str
    card: str | None
    gpus: int | None
    unlisted_card: bool
    unit: str | None


@dataclass(frozen=True)
class SiteMetric:
    """A metric that records have: its name there, its unit and meaning, and the kind of card that it belongs to."""

    name: str
    unit: str
    meaning: str
    card: str
    peak: float | None


def find_site_metric(entry: MetricEntry, where: str, key: str) -> SiteMetric:
    """Return the metric that an entry means; InputError with near names for one that no record has."""
    name = make_printable(entry.metric, 80)
    if entry.check not in load_checks():
        raise InputError(
            f"unknown check {make_printable(entry.check, 40)!r}",
            where=where,
            key=f"{key}.check",
            remedy=suggest_names(entry.check, list(load_checks())),
        )
    card, metric = split_card(entry, where, key)
    definition = find_metric(entry.check, metric)
    if definition is None or (card and not definition.is_per_card):
        raise InputError(
            f"{entry.check} records no metric {name!r}" + (" of cards" if definition else ""),
            where=where,
            key=f"{key}.metric",
            remedy=suggest_names(metric, list_metrics(entry.check, only_cards=bool(card))),
        )
    if entry.unit and entry.unit != definition.unit:
        raise InputError(
            f"expected {definition.unit}, got {make_printable(entry.unit, 40)}",
            where=where,
            key=f"{key}.unit",
        )
    full_name = f"{card}_{metric}" if card else metric
    peak = find_site_peak(entry.check, card, definition)
    return SiteMetric(full_name, definition.unit, definition.meaning, card, peak)


def split_card(entry: MetricEntry, where: str, key: str) -> tuple[str, str]:
    """Return the kind of card of an entry and the check's own metric; without a card the first is empty."""
    if entry.gpus and not entry.card:
        raise InputError("needs the key card", where=where, key=f"{key}.gpus")
    if entry.gpus and entry.check != "nccl":
        raise InputError("is the number of GPUs of a collective (nccl)", where=where, key=f"{key}.gpus")
    if entry.card:
        card = find_card(entry.card, is_unlisted=entry.unlisted_card, where=where, key=key)
        return (f"{card}_x{entry.gpus}" if entry.gpus else card), entry.metric
    if find_metric(entry.check, entry.metric) is None:
        for metric in list_metrics(entry.check, only_cards=True):
            card = entry.metric.removesuffix(f"_{metric}")
            if card != entry.metric and COLLECTIVE.sub("", card) in list_known_cards():
                return card, metric
    return "", entry.metric


def find_card(name: str, *, is_unlisted: bool, where: str, key: str) -> str:
    """Return a card as metrics have it, from a driver's name, the catalogue's, or a name in metrics."""
    cards = list_known_cards()
    if known := map_cards_by_catalogue().get(normalize_card_name(name)):
        return known
    if name in cards:
        return name
    names = list_cards_of_name(name)
    if names and (names[0] in cards or is_unlisted):
        return names[0]
    near = get_close_matches(normalize_card_name(name), cards, n=3, cutoff=SIMILARITY)
    raise InputError(
        f"{make_printable(name, 80)!r} is not a known card",
        where=where,
        key=f"{key}.card",
        remedy=(f"did you mean {', '.join(near)}? " if near else "")
        + "write the name that the driver gives, with unlisted_card: true if it is that",
    )


@cache
def list_known_cards() -> frozenset[str]:
    """Return the cards of all our tables, as metrics have them."""
    from gpufleet import catalog
    from gpufleet.drivers.data_file import load_csv_rows

    names = {card.card for card in load_cards()} | {
        COLLECTIVE.sub("", floor.card) for floor in load_card_floors()
    }
    driver_names = {name for card in load_cards() for name in card.names.split(" | ")}
    driver_names |= {row["name"] for row in load_csv_rows("cards.csv")}
    driver_names |= set(catalog.load_accelerators())
    return frozenset(names | {normalize_card_name(name) for name in driver_names} - {""})


@cache
def list_metrics(check: str, *, only_cards: bool = False) -> tuple[str, ...]:
    """Return the metrics that a check records, or those that each kind of card has."""
    entries = load_checks()[check].thresholds
    names = (name for entry in entries for name in entry.metric if entry.is_per_card or not only_cards)
    return tuple(sorted(set(names)))


def suggest_names(name: str, names: list[str] | tuple[str, ...]) -> str:
    """Return the near names of a wrong one, or all of them."""
    near = get_close_matches(name, names, n=3, cutoff=SIMILARITY)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"use one of {', '.join(names)}" if names else "it records no metric of cards"


def find_site_peak(check: str, card: str, definition: ThresholdEntry) -> float | None:
    """Return the peak of a card's rate where the catalogue has one."""
    peak = find_card_peak(card, definition.card_peak) if card and definition.card_peak else None
    return find_peak(check, peak) if peak else None


def choose_bound(bound: str | None, metric: SiteMetric, where: str, key: str) -> str:
    """Return the direction of a bound: the one that an entry names, else a floor for a rate."""
    if bound:
        return bound
    if RATES.fullmatch(metric.unit):
        return "floor"
    raise InputError(
        f"is missing: {metric.name} in {metric.unit} may have either",
        where=where,
        key=f"{key}.bound",
        remedy="use one of floor, ceiling, below",
    )

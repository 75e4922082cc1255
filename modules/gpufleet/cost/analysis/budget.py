"""What a monthly budget buys: how many hours of which machines, at which purchase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from gpufleet import catalog
from gpufleet.catalog import MachineOffer
from gpufleet.catalog.prices import COMMITMENTS
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal


@dataclass(frozen=True)
class Buy:
    """One machine at one purchase: the hours of a month that a budget pays for.

    ``always`` is how many such machines could run all month; a commitment bills all month whatever runs, so that its
    hours are none where the budget does not hold a whole one.
    """

    offer: MachineOffer
    hours: Decimal
    always: int

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the price."""
        return to_decimal(self.offer.price.usd_per_hour)


def buys(
    budget: Decimal,
    *,
    accelerator: str | None = None,
    cloud: str | None = None,
    region: str | None = None,
    purchase: str | None = None,
    machine: str | None = None,
    most: int = 20,
) -> list[Buy]:
    """Return the machines that a budget buys most accelerator hours of, each in its cheapest region."""
    offers = catalog.search_offers(
        cloud=cloud,
        region=region,
        machine=machine,
        purchase=purchase,
        accelerator=accelerator,
        compare_by="accelerator",
    )
    found = (_buy(budget, offer) for offer in _cheapest(offers))
    return [each for each in found if each.hours > 0][:most]


def _cheapest(offers: Iterable[MachineOffer]) -> Iterator[MachineOffer]:
    """Give the first, cheapest offer of each machine and purchase that carries an accelerator."""
    seen: set[tuple[str, str, str]] = set()
    for offer in offers:
        key = (offer.machine.cloud, offer.machine.name, offer.purchase)
        if offer.accelerators and offer.price.usd_per_hour > 0 and key not in seen:
            seen.add(key)
            yield offer


def _buy(budget: Decimal, offer: MachineOffer) -> Buy:
    hours = budget / to_decimal(offer.price.usd_per_hour)
    always = int((hours / HOURS_PER_MONTH).to_integral_value(ROUND_FLOOR))
    if offer.purchase in COMMITMENTS and not always:
        return Buy(offer, Decimal(0), 0)
    return Buy(offer, hours.quantize(Decimal(1), ROUND_FLOOR), always)


def buys_document(budgets: list[Decimal], found: list[list[Buy]]) -> list[dict[str, Any]]:
    """Return the same as JSON."""
    return [
        {"usd_per_month": float(budget), "buys": [_document(each) for each in rows]}
        for budget, rows in zip(budgets, found, strict=True)
    ]


def _document(of: Buy) -> dict[str, Any]:
    offer = of.offer
    return {
        "machine": offer.machine.name,
        "cloud": offer.machine.cloud,
        "region": offer.region,
        "purchase": offer.purchase,
        "accelerators": [
            {"model": card.model, "count": card.count * card.share} for card in offer.machine.accelerators
        ],
        "usd_per_hour": float(of.usd_per_hour),
        "hours_per_month": float(of.hours),
        "machines_all_month": of.always,
        "price": {"as_of": offer.price.as_of, "source": offer.price.source},
    }

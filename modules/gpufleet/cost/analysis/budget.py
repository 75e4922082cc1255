"""What a monthly budget buys: hours of each machine at each purchase kind."""

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
class BudgetOption:
    """One machine at one purchase kind: the hours a month that a budget pays for.

    ``always`` is how many such machines could run all month; a commitment bills all month whatever runs, so that its
    hours are none where the budget does not hold a whole one.
    """

    offer: MachineOffer
    hours: Decimal
    machines_all_month: int

    @property
    def machine_usd_per_hour(self) -> Decimal:
        """Return the price."""
        return to_decimal(self.offer.price.usd_per_hour)


def find_budget_options(
    budget_usd_per_month: Decimal,
    *,
    accelerator: str | None = None,
    cloud: str | None = None,
    region: str | None = None,
    purchase: str | None = None,
    machine: str | None = None,
    limit: int = 20,
) -> list[BudgetOption]:
    """Return the machines with the most accelerator hours for a budget, each in its cheapest region."""
    offers = catalog.search_offers(
        cloud=cloud,
        region=region,
        machine=machine,
        purchase=purchase,
        accelerator=accelerator,
        compare_by="accelerator",
    )
    options = (_make_option(budget_usd_per_month, offer) for offer in _cheapest_offers(offers))
    return [option for option in options if option.hours > 0][:limit]


def _cheapest_offers(offers: Iterable[MachineOffer]) -> Iterator[MachineOffer]:
    """Yield the cheapest offer of each accelerator machine and purchase kind."""
    seen_keys: set[tuple[str, str, float, str]] = set()
    for offer in offers:
        key = (offer.machine.cloud, offer.machine.name, offer.accelerator_count, offer.purchase)
        if offer.accelerator_count and offer.price.usd_per_hour > 0 and key not in seen_keys:
            seen_keys.add(key)
            yield offer


def _make_option(budget: Decimal, offer: MachineOffer) -> BudgetOption:
    hours = budget / to_decimal(offer.price.usd_per_hour)
    machines_all_month = int((hours / HOURS_PER_MONTH).to_integral_value(ROUND_FLOOR))
    if offer.purchase in COMMITMENTS and not machines_all_month:
        return BudgetOption(offer, Decimal(0), 0)
    return BudgetOption(offer, hours.quantize(Decimal(1), ROUND_FLOOR), machines_all_month)


def build_budget_document(
    budgets: list[Decimal], options_by_budget: list[list[BudgetOption]]
) -> list[dict[str, Any]]:
    """Return the options of each budget as JSON."""
    return [
        {"usd_per_month": float(budget), "buys": [_option_document(option) for option in options]}
        for budget, options in zip(budgets, options_by_budget, strict=True)
    ]


def _option_document(option: BudgetOption) -> dict[str, Any]:
    offer = option.offer
    return {
        "machine": offer.machine.name,
        "cloud": offer.machine.cloud,
        "region": offer.region,
        "purchase": offer.purchase,
        "accelerators": [
            {"model": card.model, "count": card.count * card.share} for card in offer.machine.accelerators
        ],
        "usd_per_hour": float(option.machine_usd_per_hour),
        "hours_per_month": float(option.hours),
        "machines_all_month": option.machines_all_month,
        "price": {"as_of": offer.price.as_of, "source": offer.price.source},
    }

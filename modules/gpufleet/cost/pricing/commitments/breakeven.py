"""Above how many hours a month a commitment costs less than paying by the hour."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.catalog import Price
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.cost.pricing.rates import PriceBook

AGAINST = ("on_demand", "spot")


@dataclass(frozen=True)
class CommitmentBreakEven:
    """One commitment against an hourly purchase: 730 h * committed price = hours * hourly price."""

    machine: str
    region: str
    commitment: str
    against: str
    committed: Price | None
    hourly: Price | None

    @property
    def break_even_hours_per_month(self) -> Decimal | None:
        """Return the hours above which the commitment is cheaper, None without both prices."""
        if self.committed is None or self.hourly is None:
            return None
        return (
            HOURS_PER_MONTH * to_decimal(self.committed.usd_per_hour) / to_decimal(self.hourly.usd_per_hour)
        )

    @property
    def break_even_utilisation(self) -> Decimal | None:
        """Return the same as a share of the month; above 1 the commitment never pays."""
        hours = self.break_even_hours_per_month
        return None if hours is None else hours / HOURS_PER_MONTH

    @property
    def break_even_verdict(self) -> str:
        """Return the comparison as text."""
        hours = self.break_even_hours_per_month
        if hours is None:
            missing = self.commitment if self.committed is None else self.against
            return f"no usable {missing} price in the catalogue"
        if hours > HOURS_PER_MONTH:
            return f"never: {self.against.replace('_', ' ')} is cheaper even around the clock"
        return f"above {hours:.0f} hours a month ({hours / HOURS_PER_MONTH * 100:.0f} % of it)"


def compute_break_evens(
    cloud: str,
    region: str,
    machine: str,
    book: PriceBook | None = None,
    negotiated_prices: dict[str, Price] | None = None,
) -> tuple[CommitmentBreakEven, ...]:
    """Compare each term with on-demand and spot. ``negotiated_prices`` are by term."""
    prices = book or PriceBook()
    negotiated = negotiated_prices or {}
    listed = {
        purchase: prices.find_machine_price(cloud, region, machine, purchase)
        for purchase in (*TERMS, *AGAINST)
    }
    by_purchase = listed | negotiated
    return tuple(
        CommitmentBreakEven(machine, region, term, against, by_purchase.get(term), by_purchase.get(against))
        for term in (*TERMS, *(name for name in negotiated if name not in TERMS))
        for against in AGAINST
    )


def build_break_even_document(comparisons: tuple[CommitmentBreakEven, ...]) -> list[dict[str, Any]]:
    """Return the comparison as JSON."""
    return [
        {
            "machine": each.machine,
            "region": each.region,
            "commitment": each.commitment,
            "against": each.against,
            "hours_per_month": None
            if each.break_even_hours_per_month is None
            else round(float(each.break_even_hours_per_month), 2),
            "utilisation": None
            if each.break_even_utilisation is None
            else round(float(each.break_even_utilisation), 4),
            "verdict": each.break_even_verdict,
            "committed": _price(each.committed),
            "hourly": _price(each.hourly),
        }
        for each in comparisons
    ]


def _price(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {"usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "source": price.source}

"""What hardware of our own costs per hour: facts with a source each, and the formula."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Self

from pydantic import Field, model_validator

from gpufleet.fleet.base import Amount, Frozen, Positive, refusal

HOURS_PER_YEAR = 8760


class Fact(Frozen):
    """A figure and where it is from. A figure that nobody measured says so: ``assumption: true``."""

    value: Amount
    source: Annotated[str, Field(min_length=3)]
    as_of: date | None = None
    assumption: bool = False

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if self.value < 0:
            raise refusal(f"{self.value:g} is negative", "give zero or more")
        return self


class HardwareCost(Frozen):
    """Capital over the years of use, less what is left at the end, plus power at the wall."""

    capital_usd: Fact | None = None
    capital_eur: Fact | None = None
    usd_per_eur: Annotated[Fact | None, Field(description="planning rate; needed with capital_eur")] = None
    life_years: Positive
    residual_fraction: Annotated[
        Amount, Field(ge=0, lt=1, description="share of capital left at the end")
    ] = 0.0
    watts_per_node: Fact
    usd_per_kwh: Fact
    pue: Annotated[Amount, Field(ge=1, le=3, description="power drawn by the room per power of the rack")] = (
        1.0
    )

    @model_validator(mode="after")
    def _one_capital(self) -> Self:
        if (self.capital_usd is None) == (self.capital_eur is None):
            raise refusal("the capital is not given once", "give capital_usd or capital_eur")
        if self.capital_eur is not None and self.usd_per_eur is None:
            raise refusal("capital_eur has no exchange rate", "add usd_per_eur with its source and date")
        return self

    def usd_per_hour(self, nodes: int) -> float:
        """Return capital * (1 - residual) / (years * 8,760 h) + nodes * watts / 1000 * PUE * tariff."""
        capital = self.capital_usd_value * (1 - self.residual_fraction) / (self.life_years * HOURS_PER_YEAR)
        power_kw = nodes * self.watts_per_node.value / 1000
        return capital + power_kw * self.pue * self.usd_per_kwh.value

    @property
    def capital_usd_value(self) -> float:
        """Return the capital in USD, euros changed at the planning rate."""
        if self.capital_usd is not None:
            return self.capital_usd.value
        if self.capital_eur is None or self.usd_per_eur is None:  # _one_capital rules this out
            raise ValueError("capital without currency")
        return self.capital_eur.value * self.usd_per_eur.value

    @property
    def facts(self) -> dict[str, Fact]:
        """Return the figures that are given, by name."""
        given = {
            "capital": self.capital_usd or self.capital_eur,
            "usd_per_eur": self.usd_per_eur,
            "watts_per_node": self.watts_per_node,
            "usd_per_kwh": self.usd_per_kwh,
        }
        return {name: fact for name, fact in given.items() if fact is not None}

    @property
    def as_of(self) -> str | None:
        """Return the day of the oldest figure; None while one of them is undated."""
        days = [fact.as_of for fact in self.facts.values()]
        return None if None in days else str(min(day for day in days if day is not None))

    @property
    def source(self) -> str:
        """Return where the figures are from, assumptions named as such, as one line."""
        return "; ".join(
            f"{name}: {'assumption, ' if fact.assumption else ''}{fact.source}"
            for name, fact in self.facts.items()
        )

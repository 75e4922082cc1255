"""How far one figure moves the answer, the others left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpufleet.cost.analysis.tco.comparison import Comparison

TARIFFS = (0.5, 2.0)
UTILISATIONS = (0.1, 0.25, 0.5, 1.0)
LIVES = (3, 4, 5, 6)
DISCOUNTS = (0.25, 0.5)


@dataclass(frozen=True)
class Case:
    """One figure changed, and what comes of it."""

    figure: str
    value: str
    comparison: Comparison


def cases(of: Comparison) -> tuple[Case, ...]:
    """Return the comparison under other tariffs, utilisations, lives and cloud prices."""
    return (*_tariffs(of), *_utilisations(of), *_lives(of), *_prices(of))


def _tariffs(of: Comparison) -> Iterator[Case]:
    tariff = of.own.cost.usd_per_kwh.value
    for factor in TARIFFS:
        changed = of.own.with_figures(usd_per_kwh=tariff * factor)
        yield Case("tariff", f"{tariff * factor:.2f} USD/kWh", replace(of, own=changed))


def _utilisations(of: Comparison) -> Iterator[Case]:
    for share in UTILISATIONS:
        yield Case("utilisation", f"{share:.0%}", replace(of, utilisation=share))


def _lives(of: Comparison) -> Iterator[Case]:
    for years in LIVES:
        yield Case("life", f"{years} years", replace(of, own=of.own.with_figures(life_years=years)))


def _prices(of: Comparison) -> Iterator[Case]:
    for discount in DISCOUNTS:
        price = replace(of.cloud.price, usd_per_hour=of.cloud.price.usd_per_hour * (1 - discount))
        yield Case("cloud price", f"-{discount:.0%}", replace(of, cloud=replace(of.cloud, price=price)))

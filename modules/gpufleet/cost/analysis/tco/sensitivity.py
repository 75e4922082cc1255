"""Sensitivity: the comparison with one figure changed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpufleet.cost.analysis.tco.comparison import RackCloudComparison

TARIFFS = (0.5, 2.0)
UTILISATIONS = (0.1, 0.25, 0.5, 1.0)
LIVES = (3, 4, 5, 6)
DISCOUNTS = (0.25, 0.5)


@dataclass(frozen=True)
class SensitivityCase:
    """One changed figure, and the resulting comparison."""

    figure: str
    value: str
    comparison: RackCloudComparison


def build_sensitivity_cases(comparison: RackCloudComparison) -> tuple[SensitivityCase, ...]:
    """Return the comparison under other tariffs, utilisations, lives and cloud prices."""
    return (*_tariffs(comparison), *_utilisations(comparison), *_lifetimes(comparison), *_prices(comparison))


def _tariffs(comparison: RackCloudComparison) -> Iterator[SensitivityCase]:
    tariff = comparison.rack.cost.usd_per_kwh.value
    for factor in TARIFFS:
        changed = comparison.rack.with_changed_figures(usd_per_kwh=tariff * factor)
        yield SensitivityCase("tariff", f"{tariff * factor:.2f} USD/kWh", replace(comparison, rack=changed))


def _utilisations(comparison: RackCloudComparison) -> Iterator[SensitivityCase]:
    for share in UTILISATIONS:
        yield SensitivityCase("utilisation", f"{share:.0%}", replace(comparison, utilisation=share))


def _lifetimes(comparison: RackCloudComparison) -> Iterator[SensitivityCase]:
    for years in LIVES:
        yield SensitivityCase(
            "life",
            f"{years} years",
            replace(comparison, rack=comparison.rack.with_changed_figures(life_years=years)),
        )


def _prices(comparison: RackCloudComparison) -> Iterator[SensitivityCase]:
    for discount in DISCOUNTS:
        price = replace(
            comparison.cloud.price, usd_per_hour=comparison.cloud.price.usd_per_hour * (1 - discount)
        )
        yield SensitivityCase(
            "cloud price",
            f"-{discount:.0%}",
            replace(comparison, cloud=replace(comparison.cloud, price=price)),
        )

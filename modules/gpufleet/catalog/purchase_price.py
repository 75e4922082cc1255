"""What accelerators cost to buy, and what power costs: dated figures with their sources."""

from __future__ import annotations

from functools import cache

from gpufleet.boundary import read_table
from gpufleet.quick_dataclass import dataclass

PACKAGE = "gpufleet.catalog"


@dataclass(frozen=True)
class PurchasePrice:
    """The price of one ``unit`` (card, board, computer, server) with so many devices, in USD without tax.

    ``memory_gib`` is None if the accelerator has one memory size. A card's price leaves out the host.
    """

    accelerator: str
    memory_gib: float | None
    unit: str
    devices: int
    usd_low: float
    usd_high: float
    as_of: str
    source: str


@dataclass(frozen=True)
class PowerPrice:
    """The price of electric energy at a place."""

    place: str
    usd_per_kwh: float
    as_of: str
    source: str


def find_purchase_price(accelerator: str, memory_gib: float) -> PurchasePrice | None:
    """Return the purchase price of an accelerator with that memory, None if no price is known."""
    return next(
        (
            price
            for price in _load_purchase_prices().get(accelerator, ())
            if price.memory_gib in (None, memory_gib)
        ),
        None,
    )


@cache
def load_default_power_price() -> PowerPrice:
    """Return the price of energy that counts where none is given."""
    return read_table(PowerPrice, PACKAGE, "data/power_prices.csv")[0]


@cache
def _load_purchase_prices() -> dict[str, tuple[PurchasePrice, ...]]:
    prices: dict[str, tuple[PurchasePrice, ...]] = {}
    for price in read_table(PurchasePrice, PACKAGE, "data/purchase_prices.csv"):
        prices[price.accelerator] = (*prices.get(price.accelerator, ()), price)
    return prices

"""Bought against rented, month by month.

    bought(m) = capital + m * running            running: power, space, people, network, upkeep
    rented(m) = m * (count * price * 730 h * utilisation + disks)

They meet at m = capital / (rented a month - running a month). What the hardware is worth at the end counts at
the end only: nobody sells a rack each month. The break-even utilisation is where a month of the rack, its
capital less residual spread over its life, costs what the cloud does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpufleet.cost.analysis.tco.cloud import HOURS, Cloud
from gpufleet.cost.inputs.terms import TERMS

if TYPE_CHECKING:
    from gpufleet.cost.analysis.tco.rack import Own


@dataclass(frozen=True)
class Comparison:
    """A rack against a cloud that would run for ``utilisation`` of each month."""

    own: Own
    cloud: Cloud
    utilisation: float = 1.0

    @property
    def cloud_usd_per_month(self) -> float:
        """Return what the cloud bills a month."""
        return self.cloud.usd_per_month(self.utilisation)

    @property
    def break_even_month(self) -> float | None:
        """Return the month in which the rack has paid for itself, None where it never does."""
        saved = self.cloud_usd_per_month - self.own.running_usd_per_month
        return self.own.capital_usd / saved if saved > 0 else None

    @property
    def within_life(self) -> bool:
        """Tell whether it pays for itself before its years are over."""
        month = self.break_even_month
        return month is not None and month <= self.own.months

    @property
    def break_even_utilisation(self) -> float | None:
        """Return the share of the month above which the rack is cheaper; None where the cloud bills all of it."""
        if self.cloud.purchase in TERMS:
            return None
        full = self.cloud.count * self.cloud.price.usd_per_hour * HOURS
        return max(0.0, (self.own.usd_per_month - self.cloud.storage_usd_per_month) / full)

    @property
    def saved_usd_per_month(self) -> float:
        """Return what the rack saves a month, its capital spread over its life; negative where it does not."""
        return self.cloud_usd_per_month - self.own.usd_per_month

    @property
    def own_total_usd(self) -> float:
        """Return all that the rack costs over its life."""
        return self.own.capital_usd - self.own.residual_usd + self.own.running_usd_per_month * self.own.months

    @property
    def cloud_total_usd(self) -> float:
        """Return what the cloud bills over the same months."""
        return self.cloud_usd_per_month * self.own.months

    def cumulated(self) -> list[tuple[int, float, float]]:
        """Return (month, bought, rented) from the first day to the last, the residual taken off at the end."""
        last = round(self.own.months)
        rows = [
            (
                month,
                self.own.capital_usd + month * self.own.running_usd_per_month,
                month * self.cloud_usd_per_month,
            )
            for month in range(last + 1)
        ]
        end, bought, rented = rows[-1]
        return [*rows, (end, bought - self.own.residual_usd, rented)] if self.own.residual_usd else rows

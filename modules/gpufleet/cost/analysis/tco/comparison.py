"""Compare buying with renting, month by month.

    bought(m) = capital + m * running            running: power, space, people, network, upkeep
    rented(m) = m * (count * price * 730 h * utilisation + disks)

Break-even is at m = capital / (rented a month - running a month). The residual value counts only at the end of life.
At the break-even utilisation a month of the rack, with capital less residual spread over its life, costs as much as
the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpufleet.cost.analysis.tco.cloud import HOURS, CloudAlternative
from gpufleet.cost.inputs.terms import TERMS

if TYPE_CHECKING:
    from gpufleet.cost.analysis.tco.rack import RackCost


@dataclass(frozen=True)
class RackCloudComparison:
    """A rack against cloud machines that run for the share ``utilisation`` of each month."""

    rack: RackCost
    cloud: CloudAlternative
    utilisation: float = 1.0

    @property
    def cloud_usd_per_month(self) -> float:
        """Return the monthly cost of the cloud machines."""
        return self.cloud.usd_per_month_at_utilisation(self.utilisation)

    @property
    def break_even_month(self) -> float | None:
        """Return the month in which the rack has paid for itself, None if never."""
        saved = self.cloud_usd_per_month - self.rack.running_cost_usd_per_month
        return self.rack.purchase_price_usd / saved if saved > 0 else None

    @property
    def is_paid_back_within_life(self) -> bool:
        """True if the rack pays for itself within its life."""
        month = self.break_even_month
        return month is not None and month <= self.rack.months_of_use

    @property
    def break_even_utilisation(self) -> float | None:
        """Return the utilisation above which the rack is cheaper; None if the cloud bills the full month."""
        if self.cloud.purchase in TERMS:
            return None
        full = self.cloud.count * self.cloud.price.usd_per_hour * HOURS
        return max(0.0, (self.rack.total_usd_per_month - self.cloud.storage_usd_per_month) / full)

    @property
    def saved_usd_per_month(self) -> float:
        """Return what the rack saves a month; negative if the cloud is cheaper."""
        return self.cloud_usd_per_month - self.rack.total_usd_per_month

    @property
    def rack_total_usd(self) -> float:
        """Return the rack's total cost over its life."""
        return (
            self.rack.purchase_price_usd
            - self.rack.resale_value_usd
            + self.rack.running_cost_usd_per_month * self.rack.months_of_use
        )

    @property
    def cloud_total_usd(self) -> float:
        """Return the cloud's total cost over the same months."""
        return self.cloud_usd_per_month * self.rack.months_of_use

    def cumulative_usd_by_month(self) -> list[tuple[int, float, float]]:
        """Return (month, bought, rented) for each month; the last row subtracts the residual value."""
        last = round(self.rack.months_of_use)
        rows = [
            (
                month,
                self.rack.purchase_price_usd + month * self.rack.running_cost_usd_per_month,
                month * self.cloud_usd_per_month,
            )
            for month in range(last + 1)
        ]
        last_month, bought, rented = rows[-1]
        return (
            [*rows, (last_month, bought - self.rack.resale_value_usd, rented)]
            if self.rack.resale_value_usd
            else rows
        )

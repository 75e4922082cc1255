"""Dependable offers: what a service that runs round the clock can be built on.

Serving runs round the clock: a spot machine can be taken away, and a price older than half a year may no longer hold.
Such offers rank after all others there. Training and other work with an end may use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import lru_cache

from gpufleet.catalog.entry import find_earliest_day
from gpufleet.sizing.hardware import HardwareOffer
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan

MAX_PRICE_AGE = timedelta(days=180)


def is_stale(offer: HardwareOffer, day: date) -> bool:
    """Return whether the offer's price may be older than 180 days on that day; what one owns has no market price."""
    return offer.purchase != "owned" and offer.usd_per_hour is not None and is_old_date(offer.as_of, day)


@lru_cache(maxsize=1024)
def is_old_date(as_of: str | None, day: date) -> bool:
    """Return whether a price of that date may be older than 180 days on that day; one without a date is."""
    priced = find_earliest_day(as_of)
    return priced is None or day - priced > MAX_PRICE_AGE


def is_dependable(offer: HardwareOffer | None, day: date) -> bool:
    """Return whether a service can be built on the offer: neither spot nor with a stale price."""
    return offer is None or not (offer.purchase == "spot" or is_stale(offer, day))


def serving_rank(request: SizingRequest, plan: SizingPlan) -> float:
    """Return the rank of a plan's offer for serving round the clock, 0 for other work.

    First are the offers on which a service can be built, then spot and stale prices, then hardware without a price.
    """
    if not request.is_serving:
        return 0.0
    if plan.offer is None or plan.offer.usd_per_hour is None:
        return 2.0
    return float(not is_dependable(plan.offer, request.day))


def stale_price_warnings(request: SizingRequest, plans: Iterable[SizingPlan]) -> Iterator[PlanWarning]:
    """Yield one warning if prices of the plans are stale."""
    stale = [plan.offer for plan in plans if plan.offer and is_stale(plan.offer, request.day)]
    if stale:
        dates = sorted({offer.as_of or "undated" for offer in stale})
        text = (
            f"prices of {len(stale)} of these plans are older than {MAX_PRICE_AGE.days} days ({', '.join(dates)}): "
            "they may no longer hold"
        )
        yield PlanWarning("stale-price", text, "gpufleet prices refresh")

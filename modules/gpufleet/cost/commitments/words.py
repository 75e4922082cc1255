"""Commitments in sentences, for notes and warnings of a report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from gpufleet.cost.commitments.allocate import Use
from gpufleet.cost.money import ZERO, cents
from gpufleet.cost.wording import usd

SOON_DAYS = 90  # a quarter: time to decide on a renewal
HUNDRED = Decimal(100)


def notes(uses: Iterable[Use], today: date) -> tuple[str, ...]:
    """Say of each commitment what it costs, how much of it is used, and that it ends soon."""
    listed = sorted(uses, key=lambda use: use.id)
    if not listed:
        return ()
    paid = sum((use.usd_per_month for use in listed), ZERO)
    unused = sum((use.unused_usd_per_month for use in listed), ZERO)
    head = f"commitments cost {usd(paid)} a month on top, used or not; {usd(unused)} of it is unused"
    return (head, *(_note(use, today) for use in listed))


def changes(before: Iterable[Use], after: Iterable[Use]) -> tuple[str, ...]:
    """Say which commitments a change leaves emptier, in dollars a month."""
    was = {use.id: use.unused_usd_per_month for use in before}
    said = []
    for use in sorted(after, key=lambda each: each.id):
        more = cents(use.unused_usd_per_month) - cents(was.get(use.id, ZERO))
        if more > 0:
            said.append(
                f"{use.label} {use.id}: {usd(more)} more a month unused after this change, "
                f"{usd(use.unused_usd_per_month)} in all, paid until {use.until}"
            )
    return tuple(said)


def _note(use: Use, today: date) -> str:
    said = (
        f"{use.label} {use.id}: {usd(use.usd_per_month)} a month, {use.used * HUNDRED:.0f} % used, "
        f"{usd(use.unused_usd_per_month)} unused, until {use.until}"
    )
    days = (use.until - today).days
    return (
        f"{said}: it ends in {days} days, then what it covers bills at list price"
        if days <= SOON_DAYS
        else said
    )

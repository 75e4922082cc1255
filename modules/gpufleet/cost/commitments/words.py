"""Commitments in sentences, for notes and warnings of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpufleet.catalog.table import machines
from gpufleet.cost.commitments.allocate import Use
from gpufleet.cost.money import ZERO, cents
from gpufleet.cost.wording import usd

if TYPE_CHECKING:
    from gpufleet.cost.commitments.model import Commitment

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


def doubts(commitments: Iterable[Commitment], today: date) -> tuple[str, ...]:
    """Warn of commitments that cannot count as they stand: ended, not begun, for a machine that nobody knows."""
    return tuple(said for each in commitments for said in _doubts(each, today))


def _doubts(of: Commitment, today: date) -> Iterator[str]:
    name = f"WARNING: {of.label} {of.id}"
    if of.end <= today:
        yield f"{name} ended on {of.end}: it covers nothing and is not counted"
    elif of.start > today:
        yield f"{name} begins on {of.start}: it covers nothing yet and is not counted"
    known = {machine for cloud, machine in machines() if cloud == of.cloud}
    named = {getattr(of, "machine", None), *getattr(of, "rates", ())} - {None}
    for machine in sorted(named - known):
        close = get_close_matches(machine, known, n=1, cutoff=0.8)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield f"{name} is for {machine}, which the catalogue does not know{hint}"


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

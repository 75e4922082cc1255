"""Commitments in sentences, for notes and warnings of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpufleet.catalog.data_file import load_machines
from gpufleet.catalog.prices.snapshot import list_snapshot_items
from gpufleet.cost.formatting import format_usd
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import CommitmentUse

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.model import Commitment

SOON_DAYS = 90  # a quarter: time to decide on a renewal
HUNDRED = Decimal(100)


def format_commitment_notes(uses: Iterable[CommitmentUse], today: date) -> tuple[str, ...]:
    """Return a line per commitment with its cost, its use, and its end where that is near."""
    ordered = sorted(uses, key=lambda use: use.id)
    if not ordered:
        return ()
    total = sum((use.usd_per_month for use in ordered), ZERO)
    unused = sum((use.unused_usd_per_month for use in ordered), ZERO)
    summary = f"commitments cost {format_usd(total)} a month on top, used or not; {format_usd(unused)} of it is unused"
    return (summary, *(_format_use(use, today) for use in ordered))


def format_commitment_warnings(commitments: Iterable[Commitment], today: date) -> tuple[str, ...]:
    """Return a warning per commitment that does not count: ended, not begun, or for an unknown machine."""
    return tuple(warning for commitment in commitments for warning in _warnings(commitment, today))


def _warnings(commitment: Commitment, today: date) -> Iterator[str]:
    title = f"WARNING: {commitment.label} {commitment.id}"
    if commitment.end <= today:
        yield f"{title} ended on {commitment.end}: it covers nothing and its cost is not included"
    elif commitment.start > today:
        yield f"{title} begins on {commitment.start}: it covers nothing yet and its cost is not included"
    known_machines = {machine for cloud, machine in load_machines() if cloud == commitment.cloud}
    known_machines |= list_snapshot_items(commitment.cloud)
    machines = {getattr(commitment, "machine", None), *getattr(commitment, "rates", ())} - {None}
    for machine in sorted(machines - known_machines):
        close = get_close_matches(machine, known_machines, n=1, cutoff=0.8)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield f"{title} is for {machine}, which is not in the catalogue{hint}"


def format_unused_commitment_increases(
    before: Iterable[CommitmentUse], after: Iterable[CommitmentUse]
) -> tuple[str, ...]:
    """Return a line per commitment of which a change leaves more unused, in dollars a month."""
    unused_before = {use.id: use.unused_usd_per_month for use in before}
    lines = []
    for use in sorted(after, key=lambda each: each.id):
        old = round_to_cents(unused_before.get(use.id, ZERO))
        increase = round_to_cents(use.unused_usd_per_month) - old
        if increase > 0:
            lines.append(
                f"{use.label} {use.id}: {format_usd(increase)} more a month unused after this change, "
                f"{format_usd(use.unused_usd_per_month)} in all, paid until {use.until}"
            )
    return tuple(lines)


def _format_use(use: CommitmentUse, today: date) -> str:
    line = (
        f"{use.label} {use.id}: {format_usd(use.usd_per_month)} a month, {use.used * HUNDRED:.0f} % used, "
        f"{format_usd(use.unused_usd_per_month)} unused, until {use.until}"
    )
    days = (use.until - today).days
    if days > SOON_DAYS:
        return line
    return f"{line}: it ends in {days} days, then what it covers bills at list price"

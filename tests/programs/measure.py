"""Measure how much of a program's money the cost engine prices, against the arithmetic by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from gpufleet import cost
from programs.case import HandRow, Program, build_preview

TOLERANCE = Decimal("0.02")
EXACT_USD = Decimal("0.01")
CHECKED_ON = date(2026, 11, 24)  # the day of the arithmetic: later, more versions bill extended support


@dataclass(frozen=True)
class Measurement:
    """What the cost engine says of one program, and the arithmetic by hand."""

    program: Program
    priced_rows: tuple[HandRow, ...]
    other_rows: tuple[HandRow, ...]
    usd_per_month: Decimal
    reasons: dict[str, tuple[str, ...]]  # by resource: why something of it is not in the total
    listed_free: tuple[str, ...]
    silent_rows: tuple[HandRow, ...]
    excess_usd: Decimal

    @property
    def priced_usd(self) -> Decimal:
        return sum((row.usd_per_month for row in self.priced_rows), Decimal(0))

    @property
    def share(self) -> Decimal:
        """Return the share of the money by hand that is priced within the tolerance; 1 without money."""
        total = self.program.usd_per_month
        return self.priced_usd / total if total else Decimal(1)


def measure_program(program: Program) -> Measurement:
    """Price a program's preview and compare it resource by resource."""
    return compare_bill(
        program,
        cost.diff_from_preview(build_preview(program), options=cost.CostOptions(today=CHECKED_ON)).after,
    )


def compare_bill(program: Program, bill: cost.Bill) -> Measurement:
    """Compare a bill with the arithmetic: a row is priced if a charge, or its whole resource, agrees within 2 %."""
    charges: dict[str, list[Decimal]] = {}
    for charge in bill.charges:
        charges.setdefault(get_name(charge.urn), []).append(charge.usd_per_month.expected)
    reasons: dict[str, tuple[str, ...]] = {}
    for gap in bill.unpriced_resources:
        name = get_name(gap.urn)
        text = f"{gap.component}: {gap.reason}" if gap.component else gap.reason
        reasons[name] = (*reasons.get(name, ()), text)
    priced: list[HandRow] = []
    other: list[HandRow] = []
    excess = Decimal(0)
    for name in sorted(program.billed_names | set(charges)):
        rows = [row for row in program.rows if row.resource == name and not row.is_by_use]
        amounts = charges.get(name, [])
        matched, unmatched, left = match_rows(rows, amounts)
        priced += matched
        other += unmatched
        excess += max(
            sum(left, Decimal(0)) - sum((row.usd_per_month for row in unmatched), Decimal(0)), Decimal(0)
        )
    return Measurement(
        program,
        tuple(priced),
        tuple(sorted(other, key=lambda row: (-row.usd_per_month, row.resource, row.what))),
        sum((sum(amounts, Decimal(0)) for amounts in charges.values()), Decimal(0)),
        reasons,
        tuple(sorted(set(reasons) - program.billed_names)),
        tuple(row for row in other if row.resource not in reasons),
        excess,
    )


def match_rows(
    rows: list[HandRow], amounts: list[Decimal]
) -> tuple[list[HandRow], list[HandRow], list[Decimal]]:
    """Return the rows that the amounts agree with, the other rows, and the amounts that agree with none."""
    if agrees(sum(amounts, Decimal(0)), sum((row.usd_per_month for row in rows), Decimal(0))):
        return rows, [], []
    matched, unmatched, left = [], [], list(amounts)
    for row in rows:
        amount = next((each for each in left if agrees(each, row.usd_per_month)), None)
        if amount is None:
            unmatched.append(row)
        else:
            left.remove(amount)
            matched.append(row)
    return matched, unmatched, left


def agrees(amount: Decimal, by_hand: Decimal) -> bool:
    """Return whether an amount is within 2 %, or a cent, of the one by hand."""
    return abs(amount - by_hand) <= max(TOLERANCE * by_hand, EXACT_USD)


def get_name(urn: str) -> str:
    """Return a URN's resource name."""
    return urn.rsplit("::", 1)[-1]

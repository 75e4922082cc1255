"""What was billed beside what a stack declares, by pool, with the reasons of each difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property

from gpufleet.cost.analysis.bill_period import BillPeriod, list_months
from gpufleet.cost.analysis.billed_node import POOL_TAG, STACK_TAG, NodeComparison, NodeLedger, RegisteredNode
from gpufleet.cost.inputs.bill_row import USAGE, BilledCharge
from gpufleet.cost.money import ZERO, round_parts_to_total, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.errors import InputError

MAX_GROUPS = 1000
OTHERS = "(others)"
CREDITS = "credits"
LONGEST_ROW = timedelta(days=1100)


@dataclass
class BilledPool:
    """What was billed for one pool: all of it, its machines and their hours, and what is not usage, by kind."""

    usd: Decimal = ZERO
    machine_usd: Decimal = ZERO
    machine_hours: Decimal = ZERO
    other_usd: dict[str, Decimal] = field(default_factory=dict)

    def add(self, charge: BilledCharge) -> None:
        """Add one row."""
        self.usd += charge.cost
        usage = charge.cost - charge.credit if charge.kind == USAGE else ZERO
        _add_usd(self.other_usd, CREDITS if charge.kind == USAGE else charge.kind, charge.cost - usage)
        if charge.hours is not None and charge.kind == USAGE:
            self.machine_usd += usage
            self.machine_hours += charge.hours


@dataclass
class BilledTotals:
    """The rows of exports, summed by pool of one stack.

    What has no pool is summed by service, or by kind if it is not usage: ``other_usd``. ``paid_elsewhere_rows`` are of
    machines whose commitment is in another row, ``repeated_rows`` are in an earlier file too. ``ledger`` is None
    without a registry.
    """

    stack: str
    ledger: NodeLedger | None = None
    pools: dict[str, BilledPool] = field(default_factory=dict)
    untagged_usd: dict[str, Decimal] = field(default_factory=dict)
    other_usd: dict[str, Decimal] = field(default_factory=dict)
    other_stacks_usd: Decimal = ZERO
    usage_spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)  # by cloud
    usage_months: dict[str, set[tuple[int, int]]] = field(default_factory=dict)  # by cloud: year and month
    row_count: int = 0
    paid_elsewhere_rows: int = 0
    corrected_usd: Decimal = ZERO  # of commitment purchases, whose cost is in the usage
    repeated_rows: int = 0
    repeated_usd: Decimal = ZERO
    repeated_files: tuple[str, str] | None = None  # of the first one: the earlier file, its own place
    clouds: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    usd: Decimal = ZERO
    invoiced_usd: Decimal | None = ZERO
    _span: tuple[datetime, datetime] | None = None  # of all rows

    def add(self, charge: BilledCharge) -> None:
        """Add one row; another currency than USD, and usage that ends before it starts, are an InputError."""
        if charge.currency != "USD":
            problem = f"the bill is in {charge.currency or 'an unknown currency'}"
            remedy = "export it in USD, or with the provider's conversion to USD"
            raise InputError(problem, where=charge.where or "cost actual", remedy=remedy)
        if charge.kind == USAGE and charge.end < charge.start:
            problem = f"its period ends at {charge.end:%Y-%m-%d %H:%M}, before it starts"
            raise InputError(problem, where=charge.where or "cost actual", remedy="export the bill again")
        self._note(charge)
        pool = charge.tags.get(POOL_TAG, "")
        stack = charge.tags.get(STACK_TAG)
        if stack and stack != self.stack_tag:
            self.other_stacks_usd += charge.cost
            return
        is_of_another = self.ledger.add(charge) if self.ledger else False
        if is_of_another and not stack:
            self.other_stacks_usd += charge.cost
            return
        if pool:
            self.pools.setdefault(_bounded_key(self.pools, pool), BilledPool()).add(charge)
        elif charge.kind != USAGE:
            _add_usd(self.other_usd, charge.kind, charge.cost)
        else:
            _add_usd(self.other_usd, CREDITS, charge.credit)
            _add_usd(self.untagged_usd, charge.service or "(no service)", charge.cost - charge.credit)

    def _note(self, charge: BilledCharge) -> None:
        self.row_count += 1
        self.paid_elsewhere_rows += charge.is_paid_by_commitment
        self.corrected_usd += charge.corrected
        if charge.earlier_file:
            self.repeated_rows += 1
            self.repeated_usd += charge.cost
            self.repeated_files = self.repeated_files or (charge.earlier_file, charge.where)
        self.clouds.add(charge.cloud)
        self.columns.add(charge.column)
        self.usd += charge.cost
        known = None if charge.invoiced is None else self.invoiced_usd
        self.invoiced_usd = None if known is None else known + (charge.invoiced or ZERO)
        self._span = _extend(self._span, charge)
        if charge.kind == USAGE:  # a tax or a purchase is of the whole month, whatever the export covers
            self.usage_spans[charge.cloud] = _extend(self.usage_spans.get(charge.cloud), charge)
            months = self.usage_months.setdefault(charge.cloud, set())
            if charge.end - charge.start < LONGEST_ROW:  # a longer one is not usage of a provider
                months.update(list_months(charge.start, charge.end))

    @cached_property
    def stack_tag(self) -> str:
        """Return the stack's name as tags have it."""
        from gpufleet.fleet import slugify  # the models of a spec, which other verbs of this room do not need

        return slugify(self.stack)

    @property
    def period(self) -> BillPeriod:
        """Return the time from the first to the last moment of usage, of all rows if none is usage."""
        spans = list(self.usage_spans.values()) or ([self._span] if self._span else [])
        if not spans:
            raise InputError(
                "the files have a header and no rows",
                where="cost actual",
                remedy="export a period in which something was billed",
            )
        start, end = min(start for start, _ in spans), max(end for _, end in spans)
        return BillPeriod(start, max(start, end))

    def list_months_without_usage(self) -> list[tuple[str, str]]:
        """Return each cloud and month (2026-09) within its period of which no row is usage."""
        return [
            (cloud, f"{year}-{month:02}")
            for cloud, (start, end) in sorted(self.usage_spans.items())
            for year, month in list_months(start, end)
            if (year, month) not in self.usage_months[cloud]
        ]

    def find_period(self, cloud: str) -> BillPeriod:
        """Return the period of one cloud's usage: the exports of two clouds may end on different days."""
        if "" in self.usage_spans or cloud not in self.usage_spans:
            return self.period
        start, end = self.usage_spans[cloud]
        return BillPeriod(start, max(start, end))


def _extend(span: tuple[datetime, datetime] | None, charge: BilledCharge) -> tuple[datetime, datetime]:
    start, end = span or (charge.start, charge.end)
    return min(start, charge.start), max(end, charge.end)


def _add_usd(groups: dict[str, Decimal], key: str, usd: Decimal) -> None:
    if usd:
        bounded = _bounded_key(groups, key)
        groups[bounded] = groups.get(bounded, ZERO) + usd


def _bounded_key(groups: dict[str, BilledPool] | dict[str, Decimal], key: str) -> str:
    return key if key in groups or len(groups) < MAX_GROUPS else OTHERS


@dataclass(frozen=True)
class PoolComparison:
    """One pool's declared and billed cost of a period."""

    pool: str
    declared_usd: Decimal
    billed_usd: Decimal
    reasons: tuple[tuple[str, Decimal], ...]

    @property
    def difference_usd(self) -> Decimal:
        """Return by how much the bill is higher, in whole cents: of the two amounts as they are printed."""
        return round_to_cents(self.billed_usd) - round_to_cents(self.declared_usd)

    @property
    def rounded_reasons(self) -> tuple[tuple[str, Decimal], ...]:
        """Return the reasons in whole cents, which add up to the difference."""
        amounts = round_parts_to_total([usd for _, usd in self.reasons], self.difference_usd)
        return tuple((reason, usd) for (reason, _), usd in zip(self.reasons, amounts, strict=True))


@dataclass(frozen=True)
class ActualComparison:
    """A stack's declared cost beside its bill. The files have no rows of ``missing_clouds``.

    ``period`` is that of all usage, ``periods`` that of each cloud's. ``nodes`` is None without a registry.
    """

    billed: BilledTotals
    period: BillPeriod
    pools: tuple[PoolComparison, ...]
    missing_clouds: tuple[str, ...] = ()
    nodes: NodeComparison | None = None
    periods: dict[str, BillPeriod] = field(default_factory=dict)


def sum_billed_charges(
    charges: Iterable[BilledCharge], stack: str, nodes: Iterable[RegisteredNode] | None = None
) -> BilledTotals:
    """Sum the rows of exports, also by node of the registry if its nodes are given."""
    totals = BilledTotals(stack)
    if nodes is not None:
        totals.ledger = NodeLedger(nodes, totals.stack_tag)
    for charge in charges:
        totals.add(charge)
    return totals


def compare_with_bill(declared: Bill, billed: BilledTotals) -> ActualComparison:
    """Compare a bill of declared resources with what was billed, in the period of the rows; no rows: InputError."""
    period = billed.period
    charges = declared.charges
    if "" not in billed.clouds:
        charges = tuple(charge for charge in charges if charge.cloud in billed.clouds)
    missing = {charge.cloud for charge in declared.charges} - {charge.cloud for charge in charges}
    names = sorted({charge.pool for charge in charges} | set(billed.pools))
    periods = {
        cloud: billed.find_period(cloud) for cloud in (*billed.usage_spans, *(each.cloud for each in charges))
    }
    pools = (_compare_pool(name, charges, billed, periods) for name in names)
    ledger = billed.ledger
    nodes = ledger.compare(declared.charges, billed.find_period, billed.clouds) if ledger else None
    return ActualComparison(billed, period, tuple(pools), tuple(sorted(missing)), nodes, periods)


def _compare_pool(
    name: str, declared: tuple[Charge, ...], billed: BilledTotals, periods: Mapping[str, BillPeriod]
) -> PoolComparison:
    charges = [charge for charge in declared if charge.pool == name]
    machines = [charge for charge in charges if charge.component.partition(":")[0] == "machine"]
    declared_usd = _sum_usd(charges, periods)
    actual = billed.pools.get(name)
    if actual is None:
        return PoolComparison(name, declared_usd, ZERO, (("nothing is billed with this tag", -declared_usd),))
    if not charges:
        return PoolComparison(name, ZERO, actual.usd, (("the stack does not declare this pool", actual.usd),))
    others = tuple(sorted(actual.other_usd.items()))
    usage_usd = actual.usd - sum(actual.other_usd.values(), ZERO)
    machine_usd = _sum_usd(machines, periods)
    hours = sum((periods[each.cloud].count_machine_hours(each) for each in machines), ZERO)
    if not actual.machine_hours or not hours:
        reason = ("price and quantity, which this bill does not separate", usage_usd - declared_usd)
        return PoolComparison(name, declared_usd, actual.usd, (reason, *others))
    rate = machine_usd / hours
    reasons = (
        ("hours of machines", (actual.machine_hours - hours) * rate),
        ("price of an hour", actual.machine_usd - actual.machine_hours * rate),
        ("disks, addresses, traffic", (usage_usd - actual.machine_usd) - (declared_usd - machine_usd)),
        *others,
    )
    return PoolComparison(name, declared_usd, actual.usd, reasons)


def _sum_usd(charges: Iterable[Charge], periods: Mapping[str, BillPeriod]) -> Decimal:
    return sum((periods[each.cloud].count_usd(each) for each in charges), ZERO)

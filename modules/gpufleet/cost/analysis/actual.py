"""What was billed beside what a stack declares, by pool, with the reasons of each difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from gpufleet.cost.inputs.bill_export import BilledCharge
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.errors import InputError

MAX_GROUPS = 1000
OTHERS = "(others)"
POOL_TAG, STACK_TAG = "gpufleet-pool", "gpufleet-stack"
SECONDS_PER_HOUR = 3600


@dataclass
class BilledPool:
    """What was billed for one pool: all of it, its machines, and their hours where the bill has them."""

    usd: Decimal = ZERO
    machine_usd: Decimal = ZERO
    machine_hours: Decimal = ZERO

    def add(self, charge: BilledCharge) -> None:
        """Add one row."""
        self.usd += charge.cost
        if charge.hours is not None:
            self.machine_usd += charge.cost
            self.machine_hours += charge.hours


@dataclass
class BilledTotals:
    """The rows of exports, summed by pool of one stack; what has no pool is summed by service."""

    stack: str
    pools: dict[str, BilledPool] = field(default_factory=dict)
    untagged_usd: dict[str, Decimal] = field(default_factory=dict)
    other_stacks_usd: Decimal = ZERO
    start: datetime | None = None
    end: datetime | None = None
    row_count: int = 0
    clouds: set[str] = field(default_factory=set)

    def add(self, charge: BilledCharge) -> None:
        """Add one row; another currency than USD is an InputError."""
        if charge.currency != "USD":
            problem = f"the bill is in {charge.currency or 'an unknown currency'}"
            raise InputError(problem, where="cost actual", remedy="export it in USD")
        self.row_count += 1
        self.clouds.add(charge.cloud)
        self.start = min(charge.start, self.start or charge.start)
        self.end = max(charge.end, self.end or charge.end)
        pool = charge.tags.get(POOL_TAG, "")
        if charge.tags.get(STACK_TAG, self.stack) != self.stack:
            self.other_stacks_usd += charge.cost
        elif pool:
            self.pools.setdefault(_bounded_key(self.pools, pool), BilledPool()).add(charge)
        else:
            key = _bounded_key(self.untagged_usd, charge.service or charge.category)
            self.untagged_usd[key] = self.untagged_usd.get(key, ZERO) + charge.cost

    @property
    def period_hours(self) -> Decimal:
        """Return the hours from the first to the last moment of the rows."""
        if self.start is None or self.end is None:
            return ZERO
        return (Decimal((self.end - self.start).total_seconds()) / SECONDS_PER_HOUR).quantize(Decimal(1))


def _bounded_key(groups: dict[str, object] | dict[str, BilledPool] | dict[str, Decimal], key: str) -> str:
    return key if key in groups or len(groups) < MAX_GROUPS else OTHERS


@dataclass(frozen=True)
class PoolComparison:
    """One pool's declared and billed cost of a period. The reasons add up to the difference."""

    pool: str
    declared_usd: Decimal
    billed_usd: Decimal
    reasons: tuple[tuple[str, Decimal], ...]

    @property
    def difference_usd(self) -> Decimal:
        """Return by how much the bill is higher."""
        return self.billed_usd - self.declared_usd


@dataclass(frozen=True)
class ActualComparison:
    """A stack's declared cost beside its bill. The files have no rows of ``missing_clouds``."""

    billed: BilledTotals
    pools: tuple[PoolComparison, ...]
    missing_clouds: tuple[str, ...] = ()


def sum_billed_charges(charges: Iterable[BilledCharge], stack: str) -> BilledTotals:
    """Sum the rows of exports."""
    totals = BilledTotals(stack)
    for charge in charges:
        totals.add(charge)
    return totals


def compare_with_bill(declared: Bill, billed: BilledTotals) -> ActualComparison:
    """Compare a bill of declared resources with what was billed, in the period of the rows."""
    share = billed.period_hours / HOURS_PER_MONTH
    charges = declared.charges
    if "" not in billed.clouds:
        charges = tuple(charge for charge in charges if charge.cloud in billed.clouds)
    missing = {charge.cloud for charge in declared.charges} - {charge.cloud for charge in charges}
    names = sorted({charge.pool for charge in charges} | set(billed.pools))
    pools = (_compare_pool(name, charges, billed, share) for name in names)
    return ActualComparison(billed, tuple(pools), tuple(sorted(missing)))


def _compare_pool(
    name: str, declared: tuple[Charge, ...], billed: BilledTotals, share: Decimal
) -> PoolComparison:
    charges = [charge for charge in declared if charge.pool == name]
    machines = [charge for charge in charges if charge.component.partition(":")[0] == "machine"]
    declared_usd = sum((charge.usd_per_month.expected for charge in charges), ZERO) * share
    actual = billed.pools.get(name)
    if actual is None:
        return PoolComparison(name, declared_usd, ZERO, (("nothing is billed with this tag", -declared_usd),))
    if not charges:
        return PoolComparison(name, ZERO, actual.usd, (("the stack does not declare this pool", actual.usd),))
    machine_usd = sum((charge.usd_per_month.expected for charge in machines), ZERO) * share
    hours = sum((charge.quantity.expected * charge.hours_per_month for charge in machines), ZERO) * share
    if not actual.machine_hours or not hours:
        reason = ("price and quantity, which this bill does not separate", actual.usd - declared_usd)
        return PoolComparison(name, declared_usd, actual.usd, (reason,))
    rate = machine_usd / hours
    reasons = (
        ("hours of machines", (actual.machine_hours - hours) * rate),
        ("price of an hour", actual.machine_usd - actual.machine_hours * rate),
        ("disks, addresses, traffic", (actual.usd - actual.machine_usd) - (declared_usd - machine_usd)),
    )
    return PoolComparison(name, declared_usd, actual.usd, reasons)

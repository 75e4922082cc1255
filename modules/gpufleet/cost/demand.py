"""What a resource bills for, before prices: how many of what, where, bought how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpufleet.catalog import Price
from gpufleet.cost.money import HOURS_PER_MONTH, ONE, Range
from gpufleet.cost.terms import PLAIN, Terms

if TYPE_CHECKING:
    from gpufleet.cost.commitments.allocate import Use


@dataclass(frozen=True)
class Claim:
    """Which reservation may cover a machine: one by URN (``target``), or any open one of its kind.

    ``reservation`` is the id of a wanted one as the program writes it: it may lie outside the stack.
    ``make`` is what must be the same beside the type: platform and tenancy, cards and local disks. Where the
    ``zone`` is not one, it is ``among`` several, or nobody knows.
    """

    target: str | None = None
    open: bool = False
    zone: str | None = None
    reservation: str = ""
    make: tuple[str, ...] = ()
    among: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Offer:
    """Capacity that a reservation holds and bills; ``names`` are the URNs by which it is targeted."""

    names: frozenset[str]
    open: bool = False
    zone: str | None = None
    make: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demand:
    """One thing billed by the hour.

    ``items`` are price list names: of several (a group that may launch any of them) the first is expected
    and the others widen the range. ``size`` is how many price units one of ``count`` holds (GiB of a disk,
    cards of a machine). ``own_price`` is a price that the resource itself carries, as a rack does.
    ``shares`` says, where a group counts in weights, how many of each item stand for one of the first;
    ``units`` is then what it counts, and ``weights`` what each item counts for.
    """

    component: str
    items: tuple[str, ...]
    cloud: str
    region: str
    count: Range = ONE
    size: Decimal = Decimal(1)
    terms: Terms = PLAIN
    hours: Decimal = HOURS_PER_MONTH
    part: bool = False
    claim: Claim | None = None
    offer: Offer | None = None
    own_price: Price | None = None
    note: str = ""
    shares: tuple[Decimal, ...] = ()
    units: Range | None = None
    weights: tuple[Decimal, ...] = ()


@dataclass(frozen=True)
class Gap:
    """Something that bills and has no usable price: ``reason`` says why, ``component`` what."""

    reason: str
    component: str = ""


@dataclass(frozen=True)
class Around:
    """What the parts of a machine share with it; they are bought plainly, whatever the machine is bought as."""

    cloud: str
    region: str
    pool: str = ""
    count: Range = ONE
    hours: Decimal = HOURS_PER_MONTH

    def part(self, component: str, item: str, size: Decimal = Decimal(1)) -> Demand:
        """Return the demand of one part per machine."""
        terms = Terms(pool=self.pool)
        return Demand(
            component, (item,), self.cloud, self.region, self.count, size, terms, self.hours, part=True
        )

    def for_hours(self, hours: Decimal) -> Around:
        """Return the same, billed for other hours."""
        return replace(self, hours=hours)


Findings = list[Demand | Gap]


@dataclass(frozen=True)
class Charge:
    """A demand with its price. ``covered`` of its units are paid for by a reservation in the same stack."""

    urn: str
    type: str
    name: str
    pool: str
    component: str
    item: str
    cloud: str
    region: str
    purchase: str
    quantity: Range
    usd_per_hour: Range
    hours_per_month: Decimal
    price: Price | None
    note: str = ""
    covered_by: str = ""  # the id of a commitment that pays for it already
    usd_per_useful_hour: Range | None = None  # of spot: per hour of work that is kept
    owner: str = ""  # of the tag gpufleet-owner, or owner

    @property
    def key(self) -> tuple[str, str]:
        """Return what makes this the same charge on the other side of a change."""
        return (self.urn, self.component)

    @property
    def usd_per_month(self) -> Range:
        """Return the hourly rate times the hours that bill."""
        return self.usd_per_hour * self.hours_per_month


@dataclass(frozen=True)
class Unpriced:
    """A resource, or one component of it, whose cost the totals do not hold or only bound."""

    urn: str
    type: str
    name: str
    reason: str
    component: str = ""
    bounded: bool = False  # true: the totals' range holds it; false: the totals leave it out
    count: Decimal = Decimal(1)  # how many such machines or parts, one where that is not known
    pool: str = ""
    owner: str = ""


@dataclass(frozen=True)
class Bill:
    """One side, priced."""

    charges: tuple[Charge, ...] = ()
    unpriced: tuple[Unpriced, ...] = ()
    commitments: tuple[Use, ...] = ()  # what is paid already, on top of the charges

    @property
    def machines_without_price(self) -> int:
        """Return how many machines the totals leave out."""
        left_out = (gap for gap in self.unpriced if gap.component == "machine" and not gap.bounded)
        return int(sum(gap.count for gap in left_out))

    @property
    def usd_per_hour(self) -> Range:
        """Return the rate while everything declared runs."""
        return Range.total(charge.usd_per_hour for charge in self.charges)

    @property
    def usd_per_month(self) -> Range:
        """Return the month: each charge at the hours that it bills."""
        return Range.total(charge.usd_per_month for charge in self.charges)

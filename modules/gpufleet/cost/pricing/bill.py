"""What one set of resources costs: charges, resources without a price, and commitments paid on top."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.monthly_use import MonthlyUse


@dataclass(frozen=True)
class Charge:
    """A cost component of a resource with its price; zero where a reservation or a commitment pays for it.

    ``monthly_use`` is of what bills by use: ``quantity`` is then the amount of a month.
    """

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
    usd_per_useful_hour: Range | None = None  # of spot: per hour of work that is not lost
    owner: str = ""  # of the tag gpufleet-owner, or owner
    tags: tuple[tuple[str, str], ...] = ()  # the resource's own tags or labels
    monthly_use: MonthlyUse | None = None
    owned_nodes: int = 0  # of a rack: its quantity is 1, the rack

    @property
    def comparison_key(self) -> tuple[str, str]:
        """Return what identifies this charge before and after a change."""
        return (self.urn, self.component)

    @property
    def is_by_size(self) -> bool:
        """Return whether the quantity is a size in GiB, as of a disk."""
        return self.price is not None and self.price.unit == "gib"

    @property
    def usd_per_month(self) -> Range:
        """Return the hourly rate times the hours that bill, or what bills by use."""
        if self.monthly_use:
            return self.monthly_use.usd_per_month_range
        return self.usd_per_hour * self.hours_per_month


OWNED_TYPES = "gpufleet:onprem:"


@dataclass(frozen=True)
class UnpricedResource:
    """A resource, or one component of it, whose cost the totals leave out or only bound."""

    urn: str
    type: str
    name: str
    reason: str
    component: str = ""
    is_bounded: bool = False  # true: the range of the totals includes it; false: the totals leave it out
    count: Decimal = Decimal(1)  # how many such machines or parts, one where that is not known
    pool: str = ""
    owner: str = ""
    is_by_use: bool = False  # it bills by use only, and nothing says how much it is used


@dataclass(frozen=True)
class GapClasses:
    """What totals leave out: what has no price, and what bills by use only with no amount of use."""

    without_price: tuple[UnpricedResource, ...]
    by_use: tuple[UnpricedResource, ...]

    @classmethod
    def of(cls, gaps: Iterable[UnpricedResource]) -> GapClasses:
        """Return the two classes, each in the order of ``gaps``."""
        listed = tuple(gaps)
        return cls(
            tuple(each for each in listed if not each.is_by_use),
            tuple(each for each in listed if each.is_by_use),
        )


@dataclass(frozen=True)
class SkippedResource:
    """A resource that costs nothing itself, with the reason."""

    urn: str
    type: str
    name: str
    reason: str


@dataclass(frozen=True)
class CommitmentUse:
    """What one commitment costs a month and how much of it is unused, in the expected case."""

    id: str
    kind: str
    label: str
    until: date
    usd_per_month: Decimal
    used: Decimal  # share of what was bought, 0 to 1

    @property
    def unused_usd_per_month(self) -> Decimal:
        """Return the dollars a month that buy nothing."""
        return self.usd_per_month * (1 - self.used)


@dataclass(frozen=True)
class Bill:
    """The priced resources of one program, state or preview."""

    charges: tuple[Charge, ...] = ()
    unpriced_resources: tuple[UnpricedResource, ...] = ()  # also what bills by use: ``gaps`` has the classes
    commitments: tuple[CommitmentUse, ...] = ()  # what is paid already, on top of the charges
    skipped_resources: tuple[SkippedResource, ...] = ()
    region_notes: tuple[str, ...] = ()  # which default regions were used, and where they are from
    usage_notes: tuple[str, ...] = ()  # what of the usage file has no effect, or an uncertain price

    @property
    def gaps(self) -> GapClasses:
        """Return what the totals leave out, by class."""
        return GapClasses.of(self.unpriced_resources)

    @property
    def unpriced_machine_count(self) -> int:
        """Return how many rented machines the totals leave out; those that one owns bill nothing by the month."""
        omitted = (
            each
            for each in self.unpriced_resources
            if each.component == "machine" and not each.is_bounded and not each.type.startswith(OWNED_TYPES)
        )
        return int(sum(each.count for each in omitted))

    @property
    def usd_per_hour(self) -> Range:
        """Return the rate while everything declared runs."""
        return Range.sum_ranges(charge.usd_per_hour for charge in self.charges)

    @property
    def usd_per_month(self) -> Range:
        """Return the month: each charge at the hours that it bills."""
        return Range.sum_ranges(charge.usd_per_month for charge in self.charges)

    def without_skipped_resources(self) -> Bill:
        """Return the bill without the resources that cost nothing."""
        return replace(self, skipped_resources=())

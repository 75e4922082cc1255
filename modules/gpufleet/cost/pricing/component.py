"""What a resource bills for, before prices: how many of which item, where, and on which terms.

FOCUS calls the priced result a charge (``cost.bill.Charge``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.inputs.terms import DEFAULT_TERMS, PurchaseTerms
from gpufleet.cost.money import HOURS_PER_MONTH, ONE, Range
from gpufleet.cost.pricing.monthly_use import MonthlyUse


@dataclass(frozen=True)
class ReservationClaim:
    """The reservation that may cover a machine: one by URN, or any open one with the same attributes.

    ``reservation_id`` is the id that the program gives: the reservation may be in no stack of ours.
    ``attributes`` must match in addition to the machine type: platform and tenancy, accelerators and local disks.
    ``zone`` is None where several zones are possible, or the zone is not known.
    """

    target_urn: str | None = None
    accepts_open: bool = False
    zone: str | None = None
    reservation_id: str = ""
    attributes: tuple[str, ...] = ()
    possible_zones: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReservedCapacity:
    """Capacity that a reservation bills; ``target_urns`` are the URNs by which machines target it."""

    target_urns: frozenset[str]
    accepts_open: bool = False
    zone: str | None = None
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CostComponent:
    """One part of a resource that is billed by the hour.

    ``items`` are price list names. Where a group may launch any of several, the first is the expected one and
    the others widen the range. ``size`` is how many price units one of ``count`` has (GiB of a disk, cards of
    a machine). ``declared_price`` is a price that the resource itself carries, as a rack does.

    A group that counts weighted capacity units has ``capacity_units``, and per item ``weights`` (units per
    machine) and ``count_ratios`` (how many machines of the item replace one of the first). ``system`` is the
    licensed system that its price includes. ``monthly_use`` is of what bills by use: ``size`` is then its amount of a
    month.
    """

    component: str
    items: tuple[str, ...]
    cloud: str
    region: str
    count: Range = ONE
    size: Decimal = Decimal(1)
    terms: PurchaseTerms = DEFAULT_TERMS
    hours_per_month: Decimal = HOURS_PER_MONTH
    is_part: bool = False
    claim: ReservationClaim | None = None
    reserved_capacity: ReservedCapacity | None = None
    declared_price: Price | None = None
    note: str = ""
    count_ratios: tuple[Decimal, ...] = ()
    capacity_units: Range | None = None
    weights: tuple[Decimal, ...] = ()
    system: str = ""
    monthly_use: MonthlyUse | None = None
    owned_nodes: int = 0  # of a rack, which has one price

    @property
    def priced_items(self) -> tuple[str, ...]:
        """Return the names in the price list, with the licensed system: ``m5.large:windows``."""
        return tuple(f"{item}:{self.system}" for item in self.items) if self.system else self.items


@dataclass(frozen=True)
class UnpricedComponent:
    """A component that bills and has no usable price, with the reason.

    ``is_by_use``: it bills by use only, and nothing says how much it is used.
    """

    reason: str
    component: str = ""
    is_by_use: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class LicenceComponent(UnpricedComponent):
    """The licence of a system, unpriced unless the price list has the machine with the ``system``."""

    system: str = ""


@dataclass(frozen=True)
class UsageComponent:
    """A component that bills by use: ``amount`` units of ``item`` a month, None if the usage file does not have it.

    ``is_stored``: the amount is kept during the month and has a monthly price (GiB of objects). Otherwise it is used up
    and each unit has a price (requests, GiB sent). ``usage_key`` is the key of ``data/usage_keys.csv``.
    """

    component: str
    item: str
    usage_key: str
    cloud: str
    region: str
    amount: Decimal | None
    is_stored: bool = False
    pool: str = ""
    note: str = ""


Component = CostComponent | UnpricedComponent | UsageComponent
Components = list[Component]

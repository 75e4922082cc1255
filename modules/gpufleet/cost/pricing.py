"""Price one side: resources in, a bill out. Nothing is dropped silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from gpufleet.boundary import packaged_rows
from gpufleet.catalog import Price
from gpufleet.cost.coverage import Share, covered
from gpufleet.cost.demand import Bill, Charge, Demand, Findings, Gap, Unpriced
from gpufleet.cost.graph import Graph, kind
from gpufleet.cost.money import NOTHING, Range, exact
from gpufleet.cost.pricers import registry
from gpufleet.cost.rates import PriceBook, rate, remembering
from gpufleet.cost.terms import owner
from gpufleet.cost.usage import NO_USAGE, UsageFile
from gpufleet.cost.wording import printable
from gpufleet.engine import Resource

if TYPE_CHECKING:
    from gpufleet.cost.commitments.allocate import Covered, Paid, Use
    from gpufleet.cost.commitments.model import Commitment


def price(
    resources: Iterable[Resource],
    book: PriceBook | None = None,
    *,
    commitments: Iterable[Commitment] = (),
    on: date | None = None,
    usage: UsageFile = NO_USAGE,
) -> Bill:
    """Price every resource that bills; list each one that bills and cannot be priced.

    What ``commitments`` in force on that day (today) pay for already costs nothing more.
    """
    prices = remembering(book or PriceBook())
    graph = Graph(resources, usage)
    found = [(resource, item) for resource in graph.resources for item in _findings(resource, graph)]
    demands = [(resource, item) for resource, item in found if isinstance(item, Demand)]
    shares = covered((resource.urn, demand) for resource, demand in demands if not resource.delete)
    paid, uses = _committed(demands, shares, tuple(commitments), prices, on)
    charges: list[Charge] = []
    unpriced = [_unpriced(resource, item, graph) for resource, item in found if isinstance(item, Gap)]
    for resource, demand in demands:
        share = None if resource.delete else shares.get((resource.urn, demand.component))
        left, by = demand.count, ""
        if share:
            charges.append(_covered_charge(resource, demand, share, graph))
            left, by = share.left, share.by
        held = None if resource.delete else paid.get((resource.urn, demand.component))
        if held:
            charges += [_paid_charge(resource, demand, each, graph) for each in held.shares]
            left, by = held.left, held.shares[0].commitment
        if left != NOTHING or not by:
            bought = demand if left is demand.count else replace(demand, count=left, units=None)
            charge, gap = _bought(resource, bought, prices, graph)
            charges += [charge] if charge else []
            unpriced += [gap] if gap else []
    gaps = tuple(sorted(unpriced, key=lambda gap: (gap.urn, gap.component)))
    return Bill(tuple(_distinct(charges)), gaps, uses)


def _committed(
    demands: list[tuple[Resource, Demand]],
    shares: dict[tuple[str, str], Share],
    commitments: tuple[Commitment, ...],
    book: PriceBook,
    on: date | None,
) -> tuple[dict[tuple[str, str], Paid], tuple[Use, ...]]:
    """Return which demands commitments pay for, after what a reservation of the stack holds, and their use."""
    if not commitments:
        return {}, ()
    from gpufleet.cost.commitments.allocate import allocate
    from gpufleet.cost.commitments.scope import Context

    @cache
    def on_demand(cloud: str, region: str, machine: str) -> Decimal | None:
        found = book.machine(cloud, region, machine, "on_demand")
        return None if found is None else exact(found.usd_per_hour)

    keyed = [
        ((resource.urn, demand.component), demand) for resource, demand in demands if not resource.delete
    ]
    wanted = [
        (key, replace(demand, count=shares[key].left) if key in shares else demand) for key, demand in keyed
    ]
    return allocate(wanted, commitments, on or datetime.now(UTC).date(), Context(on_demand))


def _findings(resource: Resource, graph: Graph) -> Findings:
    if resource.external:
        return []
    if resource.remote:
        return [Gap(f"{resource.type} is a remote component: what it makes shows only in a preview")]
    pricer = registry().get(kind(resource.type))
    if pricer:
        return pricer(resource, graph)
    if is_free(resource):
        return []
    if by := next((by for pattern, by in usage_types().items() if fnmatchcase(resource.type, pattern)), ""):
        return [Gap(f"bills by use ({by}), which no program declares")]
    return [Gap(f"unknown type {resource.type}: no pricer and not known to be free")]


def is_free(resource: Resource) -> bool:
    """Tell whether a resource costs nothing itself: a component, or a type in the table of free ones."""
    return not resource.custom or _free_kind(kind(resource.type))


@cache
def _free_kind(of: str) -> bool:
    return any(fnmatchcase(of, pattern) for pattern in free_types())


@cache
def free_types() -> dict[str, str]:
    """Return the type patterns that bill nothing by themselves, each with the reason."""
    return _pairs("free_types.csv")


@cache
def usage_types() -> dict[str, str]:
    """Return the type patterns that bill by use alone, each with what is counted."""
    return _pairs("usage_types.csv")


def _pairs(name: str) -> dict[str, str]:
    pairs = (tuple(row.values()) for row in packaged_rows("gpufleet.cost", f"data/{name}"))
    return {pair[0]: pair[1] for pair in pairs}


def _bought(
    resource: Resource, demand: Demand, book: PriceBook, graph: Graph
) -> tuple[Charge | None, Unpriced | None]:
    """Return the charge of a demand as far as it has a price, and what is missing of it."""
    priced = rate(demand, book)
    bounded, many = bool(priced.usd_per_hour), demand.count.expected
    gap = replace(_unpriced(resource, priced.gap, graph), bounded=bounded, count=many) if priced.gap else None
    if priced.usd_per_hour is None:
        return None, gap
    quantity = demand.count * demand.size
    purchase = "owned" if demand.own_price else demand.terms.purchase
    usd = priced.whole or quantity * priced.usd_per_hour
    return _charge(resource, demand, graph, quantity, purchase, usd, priced.price), gap


def _covered_charge(resource: Resource, demand: Demand, share: Share, graph: Graph) -> Charge:
    """Return the charge of zero that says which reservation already pays."""
    holder = graph.get(share.by)
    name = holder.name if holder else share.by
    note = f"covered by {name}" if share.sure else f"may be covered by {name}: its zone is not known"
    charge = _charge(resource, demand, graph, share.covered * demand.size, "covered")
    return replace(charge, note=note)


def _paid_charge(resource: Resource, demand: Demand, paid: Covered, graph: Graph) -> Charge:
    """Return the charge of zero that says which commitment pays already, and until when."""
    quantity = paid.count * demand.size
    charge = _charge(resource, demand, graph, quantity, "covered")
    note = f"covered by {paid.label} {paid.commitment} until {paid.until}"
    return replace(charge, note=note, covered_by=paid.commitment)


def _charge(  # noqa: PLR0917 - in the order of a charge's own fields
    resource: Resource,
    demand: Demand,
    graph: Graph,
    quantity: Range,
    purchase: str,
    usd_per_hour: Range = NOTHING,
    price: Price | None = None,
) -> Charge:
    return Charge(
        urn=resource.urn,
        type=resource.type,
        name=printable(resource.name),
        pool=printable(demand.terms.pool or graph.pool(resource)),
        component=printable(demand.component),
        item=printable(demand.items[0]),
        cloud=demand.cloud,
        region=printable(demand.region),
        purchase=purchase,
        quantity=quantity,
        usd_per_hour=usd_per_hour,
        hours_per_month=demand.hours,
        price=price,
        note=demand.note,
        owner=printable(demand.terms.owner or owner(graph.tags(resource))),
    )


def _unpriced(resource: Resource, gap: Gap, graph: Graph) -> Unpriced:
    tagged = graph.tags(resource)
    pool = printable(tagged.get("gpufleet-pool", "") or graph.pool(resource))
    named = (resource.urn, resource.type, printable(resource.name))
    return Unpriced(
        *named, printable(gap.reason), printable(gap.component), pool=pool, owner=printable(owner(tagged))
    )


def _distinct(charges: list[Charge]) -> Iterator[Charge]:
    """Give charges that share a key (a record pending deletion, a surplus) a component name of their own."""
    seen: dict[tuple[str, str], int] = {}
    for charge in sorted(charges, key=lambda c: (*c.key, c.purchase, c.item, c.quantity.expected)):
        seen[charge.key] = seen.get(charge.key, 0) + 1
        times = seen[charge.key]
        yield charge if times == 1 else replace(charge, component=f"{charge.component} ({times})")

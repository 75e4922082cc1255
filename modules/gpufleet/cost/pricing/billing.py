"""Price the resources of one program, state or preview. No resource that bills is dropped silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import Price
from gpufleet.cost.formatting import replace_control_characters
from gpufleet.cost.inputs.default_region import NO_REGIONS, DefaultRegions
from gpufleet.cost.inputs.graph import ResourceGraph, strip_api_version
from gpufleet.cost.inputs.terms import find_owner_tag
from gpufleet.cost.inputs.usage import NO_USAGE, UsageFile
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO_RANGE, Range, to_decimal
from gpufleet.cost.pricing.bill import Bill, Charge, CommitmentUse, SkippedResource, UnpricedResource
from gpufleet.cost.pricing.by_use import resolve_usage_component
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.coverage import ReservationShare, allocate_reservations
from gpufleet.cost.pricing.name_suggestion import find_name_suggestions, get_priced_name
from gpufleet.cost.pricing.pricers import find_pricer
from gpufleet.cost.pricing.pricers.licence import include_priced_licences, uncovered_licence
from gpufleet.cost.pricing.rates import PriceBook, find_component_rate, with_price_cache
from gpufleet.cost.pricing.unpriced_input import list_unpriced_inputs
from gpufleet.engine import StateResource

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.allocate import CommitmentShare, CommittedComponent
    from gpufleet.cost.pricing.commitments.model import Commitment


Key = tuple[str, str]  # the URN of a resource and the name of one of its components
ResourceComponent = tuple[StateResource, CostComponent]


def price_resources(
    resources: Iterable[StateResource],
    book: PriceBook | None = None,
    *,
    commitments: Iterable[Commitment] = (),
    on_date: date | None = None,
    usage: UsageFile = NO_USAGE,
    updated_from: Iterable[StateResource] = (),
    regions: DefaultRegions = NO_REGIONS,
) -> Bill:
    """Price every resource that bills; list each one that bills and cannot be priced.

    ``updated_from`` are the resources before a change that updated them, without those that it replaces: what
    refers to an old version of them keeps that version.

    ``regions`` are those of resources that name none, by cloud.

    What ``commitments`` in force on that day (today) pay for already costs nothing more; versions out of support on
    that day bill their extended support.
    """
    prices = with_price_cache(book or PriceBook(), on_date)
    graph = ResourceGraph(resources, usage, updated_from, regions, on_date)
    entries = [
        (resource, resolve_usage_component(entry, prices) if isinstance(entry, UsageComponent) else entry)
        for resource in graph.resources
        for entry in include_priced_licences(_components(resource, graph), prices.find_machine_price)
    ]
    components = [(resource, entry) for resource, entry in entries if isinstance(entry, CostComponent)]
    for resource, component in components:
        graph.record_billed_hours(resource, component.hours_per_month)
    unpriced = [
        _unpriced_resource(resource, entry, graph)
        for resource, entry in entries
        if isinstance(entry, UnpricedComponent)
    ]
    reserved = allocate_reservations(
        (resource.urn, component) for resource, component in components if not resource.delete
    )
    committed, uses = _allocate_commitments(components, reserved, tuple(commitments), prices, graph.on_date)
    charges: list[Charge] = []
    missing_prices: list[tuple[int, CostComponent]] = []  # the place in ``unpriced``
    for resource, component in components:
        key = (resource.urn, component.component)
        reservation = None if resource.delete else reserved.get(key)
        commitment = None if resource.delete else committed.get(key)
        covered, remaining = _covered_charges(resource, component, reservation, commitment, graph)
        charges += covered
        licence = uncovered_licence(component) if covered else None
        unpriced += [_unpriced_resource(resource, licence, graph)] if licence else []
        if remaining != ZERO_RANGE or not covered:
            billed = (
                component
                if remaining is component.count
                else replace(component, count=remaining, capacity_units=None)
            )
            charge, missing = _price_component(resource, billed, prices, graph)
            charges += [charge] if charge else []
            if missing and charge is None:
                missing_prices.append((len(unpriced), billed))
            unpriced += [missing] if missing else []
    _add_name_suggestions(unpriced, missing_prices)
    ordered = tuple(sorted(unpriced, key=lambda each: (each.urn, each.component)))
    billed_urns = {resource.urn for resource, _ in entries}
    skipped = [_skipped_resource(each) for each in graph.resources if each.urn not in billed_urns]
    skipped.sort(key=lambda each: each.urn)  # the order of resources does not matter
    notes = tuple(sorted(graph.region_notes))
    distinct = tuple(_with_distinct_keys(charges))
    usage_notes = (
        *graph.format_unread_usage_notes(),
        *graph.format_ignored_tag_notes(),
        *_list_caveats(distinct),
    )
    return Bill(distinct, ordered, uses, tuple(skipped), notes, usage_notes)


def _list_caveats(charges: Iterable[Charge]) -> list[str]:
    return sorted(
        {each.monthly_use.caveat for each in charges if each.monthly_use and each.monthly_use.caveat}
    )


def _allocate_commitments(
    components: list[ResourceComponent],
    reserved: dict[Key, ReservationShare],
    commitments: tuple[Commitment, ...],
    book: PriceBook,
    on: date,
) -> tuple[dict[Key, CommittedComponent], tuple[CommitmentUse, ...]]:
    """Return what commitments pay for beyond the reservations of the stack, and each commitment's use."""
    if not commitments:
        return {}, ()
    from gpufleet.cost.pricing.commitments.allocate import allocate_commitments
    from gpufleet.cost.pricing.commitments.scope import AllocationLookups

    @cache
    def on_demand_usd_per_hour(cloud: str, region: str, machine: str) -> Decimal | None:
        price = book.find_machine_price(cloud, region, machine, "on_demand")
        return None if price is None else to_decimal(price.usd_per_hour)

    by_key = [
        ((resource.urn, component.component), component)
        for resource, component in components
        if not resource.delete
    ]
    uncovered = [
        (key, replace(component, count=reserved[key].remaining) if key in reserved else component)
        for key, component in by_key
    ]
    return allocate_commitments(uncovered, commitments, on, AllocationLookups(on_demand_usd_per_hour))


def _components(resource: StateResource, graph: ResourceGraph) -> Components:
    if resource.external:
        return []
    if resource.remote:
        reason = f"{resource.type} is a remote component: only a preview lists its resources"
        return [UnpricedComponent(reason)]
    pricer = find_pricer(strip_api_version(resource.type))
    if pricer or is_free_resource(resource):
        priced = list(pricer(resource, graph)) if pricer else []
        return [*priced, *list_unpriced_inputs(resource, priced, graph)]
    patterns = load_usage_billed_resource_types().items()
    if unit := next((unit for pattern, unit in patterns if fnmatchcase(resource.type, pattern)), ""):
        reason = f"bills by use ({unit}), which the program does not declare"
        return [UnpricedComponent(reason, is_by_use=True)]
    return [UnpricedComponent(f"unknown type {resource.type}: no pricer and not known to be free")]


def _skipped_resource(resource: StateResource) -> SkippedResource:
    """Return a resource without charges and the reason."""
    if resource.external:
        reason = "managed elsewhere: the program only reads it"
    elif not resource.custom:
        reason = "a component: the resources in it are billed"
    else:
        reason = find_free_reason(strip_api_version(resource.type)) or "costs nothing as it is declared"
    name = replace_control_characters(resource.name)
    return SkippedResource(resource.urn, resource.type, name, reason)


def is_free_resource(resource: StateResource) -> bool:
    """Return whether a resource costs nothing itself: a component, or a type in the table of free ones."""
    return not resource.custom or bool(find_free_reason(strip_api_version(resource.type)))


@cache
def find_free_reason(type_token: str) -> str:
    """Return why a type bills nothing, empty if it may bill; a list or a patch of Kubernetes bills as its kind does."""
    reasons = load_free_resource_types()
    if type_token in reasons:
        return reasons[type_token]
    patterns = (pattern for pattern in reasons if "*" in pattern)
    reason = next((reasons[pattern] for pattern in patterns if fnmatchcase(type_token, pattern)), "")
    if reason or not type_token.startswith("kubernetes:"):
        return reason
    kind = type_token.removesuffix("List").removesuffix("Patch")
    return find_free_reason(kind) if kind != type_token else ""


@cache
def load_free_resource_types() -> dict[str, str]:
    """Return the type patterns that bill nothing by themselves, each with the reason."""
    return _load_type_table("free_types.csv", "why")


@cache
def load_usage_billed_resource_types() -> dict[str, str]:
    """Return the type patterns that bill by use alone, each with what is counted."""
    return _load_type_table("usage_types.csv", "by")


def _load_type_table(file_name: str, column: str) -> dict[str, str]:
    """Return one column of a packaged table, by type pattern."""
    return {row["type"]: row[column] for row in read_packaged_rows("gpufleet.cost", f"data/{file_name}")}


def _price_component(
    resource: StateResource, component: CostComponent, book: PriceBook, graph: ResourceGraph
) -> tuple[Charge | None, UnpricedResource | None]:
    """Return the charge of a component as far as it has a price, and what has none."""
    rate = find_component_rate(component, book)
    unpriced = None
    if rate.unpriced:
        unpriced = replace(
            _unpriced_resource(resource, rate.unpriced, graph),
            is_bounded=bool(rate.usd_per_hour),
            count=component.count.expected,
        )
    if rate.usd_per_hour is None:
        return None, unpriced
    quantity = component.count * component.size
    purchase = "owned" if component.declared_price else component.terms.purchase
    usd_per_hour = rate.total_usd_per_hour or quantity * rate.usd_per_hour
    if component.monthly_use:
        usd_per_hour = component.monthly_use.usd_per_month_range * (1 / HOURS_PER_MONTH)
    if rate.note:
        component = replace(component, note="; ".join(filter(None, (component.note, rate.note))))
    return _charge(resource, component, graph, quantity, purchase, usd_per_hour, rate.price), unpriced


def _add_name_suggestions(
    unpriced: list[UnpricedResource], missing_prices: list[tuple[int, CostComponent]]
) -> None:
    """Add to the reason of each missing price which machine or region a misspelt name may mean."""
    suggestions = find_name_suggestions(component for _, component in missing_prices)
    for index, component in missing_prices if suggestions else ():
        if text := suggestions.get(get_priced_name(component)):
            each = unpriced[index]
            unpriced[index] = replace(each, reason=f"{each.reason}; {replace_control_characters(text)}")


def _covered_charges(
    resource: StateResource,
    component: CostComponent,
    reservation: ReservationShare | None,
    commitment: CommittedComponent | None,
    graph: ResourceGraph,
) -> tuple[list[Charge], Range]:
    """Return the charges of zero that a reservation and commitments already pay, and the count that remains."""
    charges, remaining = [], component.count
    if reservation:
        charges.append(_reservation_charge(resource, component, reservation, graph))
        remaining = reservation.remaining
    if commitment:
        charges += [_commitment_charge(resource, component, share, graph) for share in commitment.shares]
        remaining = commitment.remaining
    return charges, remaining


def _reservation_charge(
    resource: StateResource, component: CostComponent, share: ReservationShare, graph: ResourceGraph
) -> Charge:
    """Return a charge of zero with a note of the reservation that pays already."""
    reservation = graph.get_resource(share.reservation_urn)
    name = reservation.name if reservation else share.reservation_urn
    note = f"covered by {name}" if share.is_certain else f"may be covered by {name}: its zone is not known"
    charge = _charge(resource, component, graph, share.covered * component.size, "covered")
    return replace(charge, note=note)


def _commitment_charge(
    resource: StateResource, component: CostComponent, share: CommitmentShare, graph: ResourceGraph
) -> Charge:
    """Return a charge of zero with a note of the commitment that pays already, and until when."""
    charge = _charge(resource, component, graph, share.count * component.size, "covered")
    note = f"covered by {share.label} {share.commitment} until {share.until}"
    return replace(charge, note=note, covered_by=share.commitment)


def _charge(  # noqa: PLR0917 - in the order of a charge's own fields
    resource: StateResource,
    component: CostComponent,
    graph: ResourceGraph,
    quantity: Range,
    purchase: str,
    usd_per_hour: Range = ZERO_RANGE,
    price: Price | None = None,
) -> Charge:
    return Charge(
        urn=resource.urn,
        type=resource.type,
        name=replace_control_characters(resource.name),
        pool=replace_control_characters(component.terms.pool or graph.component_or_own_name(resource)),
        component=replace_control_characters(component.component),
        item=replace_control_characters(component.priced_items[0]),
        cloud=component.cloud,
        region=replace_control_characters(component.region),
        purchase=purchase,
        quantity=quantity,
        usd_per_hour=usd_per_hour,
        hours_per_month=component.hours_per_month,
        price=price,
        note=component.note,
        owner=replace_control_characters(
            component.terms.owner or find_owner_tag(graph.tags_of_resource(resource))
        ),
        tags=tuple(graph.tags_of_resource(resource).items()),
        monthly_use=component.monthly_use,
        owned_nodes=component.owned_nodes,
    )


def _unpriced_resource(
    resource: StateResource, unpriced: UnpricedComponent, graph: ResourceGraph
) -> UnpricedResource:
    tags = graph.tags_of_resource(resource)
    return UnpricedResource(
        urn=resource.urn,
        type=resource.type,
        name=replace_control_characters(resource.name),
        reason=replace_control_characters(unpriced.reason),
        component=replace_control_characters(unpriced.component),
        pool=replace_control_characters(
            tags.get("gpufleet-pool", "") or graph.component_or_own_name(resource)
        ),
        owner=replace_control_characters(find_owner_tag(tags)),
        is_by_use=unpriced.is_by_use,
    )


def _with_distinct_keys(charges: list[Charge]) -> Iterator[Charge]:
    """Return the charges, numbered where several share a key: a record pending deletion, a surplus."""
    counts: dict[tuple[str, str], int] = {}
    for charge in sorted(charges, key=lambda c: (*c.comparison_key, c.purchase, c.item, c.quantity.expected)):
        counts[charge.comparison_key] = number = counts.get(charge.comparison_key, 0) + 1
        yield charge if number == 1 else replace(charge, component=f"{charge.component} ({number})")

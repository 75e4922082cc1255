"""Which machines run in a reservation: capacity of the stack bills once, not again per instance in it.

Reservations bill their whole count, used or not. A machine that targets a reservation (or, where the cloud
allows it, matches an open one with the same attributes and zone) costs nothing more, up to the reserved count.
The surplus bills as usual. The least, the expected and the most machines are allocated separately: what one
group leaves free when it is small is available to another only in that case.

Claims are served in the order of their URNs, so that the order in which resources are listed does not matter:
first those that target a reservation, then those that surely match an open one. A machine that may or may not
be in the reservation's zone is covered where the least is counted, and billed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import CostComponent, ReservationClaim, ReservedCapacity

UrnComponent = tuple[str, CostComponent]  # the URN of a resource and one of its components
LEAST = 0
TARGETED, MATCHING, POSSIBLE = range(3)  # how a machine comes to a reservation, in the order of being served


@dataclass(frozen=True)
class ReservationShare:
    """How many machines of a claim a reservation covers, and how many remain to bill."""

    covered: Range
    remaining: Range
    reservation_urn: str
    is_certain: bool = True


@dataclass
class _Reservation:
    """What remains of one reservation's capacity, in each of the three scenarios."""

    urn: str
    component: CostComponent
    remaining: list[Decimal]


@dataclass
class _PendingClaim:
    """What a claim still needs, in each of the three scenarios."""

    key: tuple[str, str]
    component: CostComponent
    remaining: list[Decimal]
    reservation_urn: str = ""
    is_certain: bool = True
    candidates: list[tuple[_Reservation, int]] = field(default_factory=list)


def allocate_reservations(components: Iterable[UrnComponent]) -> dict[tuple[str, str], ReservationShare]:
    """Return how many of each claim are covered and by which reservation, by (URN, component)."""
    ordered = sorted(components, key=lambda entry: (entry[0], entry[1].component))
    reservations: dict[tuple[object, ...], list[_Reservation]] = {}
    for urn, component in ordered:
        if component.reserved_capacity:
            reservation = _Reservation(urn, component, _scenario_values(component.count))
            reservations.setdefault(_capacity_key(component), []).append(reservation)
    claims = []
    for urn, component in ordered:
        if component.claim:
            claim = _PendingClaim((urn, component.component), component, _scenario_values(component.count))
            candidates = reservations.get(_capacity_key(component), ())
            claim.candidates = list(_usable_reservations(component.claim, candidates))
            claims.append(claim)
    for match in (TARGETED, MATCHING, POSSIBLE):
        for claim in claims:
            _serve_claim(claim, match)
    return {claim.key: _reservation_share(claim) for claim in claims if claim.reservation_urn}


def _serve_claim(claim: _PendingClaim, match: int) -> None:
    """Take capacity from one reservation after the other; a possible match counts only where the least is."""
    for reservation in (candidate for candidate, how in claim.candidates if how == match):
        for scenario in range(3) if match != POSSIBLE else (LEAST,):
            covered = min(claim.remaining[scenario], reservation.remaining[scenario])
            reservation.remaining[scenario] -= covered
            claim.remaining[scenario] -= covered
            if covered and not claim.reservation_urn:
                claim.reservation_urn, claim.is_certain = reservation.urn, match != POSSIBLE


def _reservation_share(claim: _PendingClaim) -> ReservationShare:
    counts = _scenario_values(claim.component.count)
    low, expected, high = (
        count - remaining for count, remaining in zip(counts, claim.remaining, strict=True)
    )
    covered = Range(min(low, expected, high), expected, max(low, expected, high))
    remaining = Range.spanning(*claim.remaining)
    return ReservationShare(covered, remaining, claim.reservation_urn, claim.is_certain)


def _scenario_values(counts: Range) -> list[Decimal]:
    return [counts.low, counts.expected, counts.high]


def _capacity_key(component: CostComponent) -> tuple[object, ...]:
    """Return what must be equal for capacity and for what runs in it."""
    return (component.cloud, component.region, component.items, component.is_part, component.size)


def _usable_reservations(
    claim: ReservationClaim, reservations: Iterable[_Reservation]
) -> Iterator[tuple[_Reservation, int]]:
    """Yield the reservations that a machine may run in, each with the kind of match."""
    for reservation in reservations:
        capacity = reservation.component.reserved_capacity
        match = _match(claim, capacity) if capacity else None
        if match is not None:
            yield reservation, match


def _match(claim: ReservationClaim, capacity: ReservedCapacity) -> int | None:
    """Return how a machine matches reserved capacity, None if it cannot run there."""
    if claim.attributes and capacity.attributes and claim.attributes != capacity.attributes:
        return None
    if claim.target_urn is not None:
        return TARGETED if claim.target_urn in capacity.target_urns else None
    if not (claim.accepts_open and capacity.accepts_open):
        return None
    if capacity.zone is None or claim.zone is None:
        is_elsewhere = (
            capacity.zone is not None and claim.possible_zones and capacity.zone not in claim.possible_zones
        )
        return None if is_elsewhere else POSSIBLE
    return MATCHING if capacity.zone == claim.zone else None

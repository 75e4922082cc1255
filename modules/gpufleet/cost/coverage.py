"""Who runs inside a reservation: capacity held by the stack bills once, not again per instance in it.

Reservations bill their whole count, used or not. A machine that targets a reservation (or, where the cloud
lets it, matches an open one of the same make and zone) costs nothing more, up to the reserved count; the
surplus bills as usual. The least, the expected and the most machines are each shared out by themselves:
what one group leaves free when it is small is another's only then.

Claims are served in the order of their URNs, so that the answer does not depend on the order in which
resources are listed; first those that name a reservation, then those that surely match an open one. A machine
that may or may not be in the reservation's zone is covered where the least is counted, and billed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from gpufleet.cost.demand import Claim, Demand, Offer
from gpufleet.cost.money import Range

Held = tuple[str, Demand]  # the URN of a resource and one demand of it
LEAST = 0
NAMED, SURE, MAYBE = range(3)  # how a machine comes to a reservation, in the order of being served


@dataclass(frozen=True)
class Share:
    """How many of a claim are ``covered`` by the reservation ``by``, and how many are ``left`` to bill."""

    covered: Range
    left: Range
    by: str
    sure: bool = True


@dataclass
class _Pool:
    """What is left of one offer, in each of the three scenarios."""

    urn: str
    demand: Demand
    left: list[Decimal]


@dataclass
class _Claimed:
    """What a claim has been given so far, in each of the three scenarios."""

    key: tuple[str, str]
    demand: Demand
    left: list[Decimal]
    by: str = ""
    sure: bool = True
    pools: list[tuple[_Pool, int]] = field(default_factory=list)


def covered(demands: Iterable[Held]) -> dict[tuple[str, str], Share]:
    """Return how many of each claim are covered, and by whom: by (urn, component)."""
    listed = sorted(demands, key=lambda held: (held[0], held[1].component))
    pools: dict[tuple[object, ...], list[_Pool]] = {}
    for urn, demand in listed:
        if demand.offer:
            pools.setdefault(_kind(demand), []).append(_Pool(urn, demand, _three(demand.count)))
    claims = []
    for urn, demand in listed:
        if demand.claim:
            claim = _Claimed((urn, demand.component), demand, _three(demand.count))
            claim.pools = list(_fitting(demand.claim, pools.get(_kind(demand), ())))
            claims.append(claim)
    for step in (NAMED, SURE, MAYBE):
        for claim in claims:
            _serve(claim, step)
    return {claim.key: _share(claim) for claim in claims if claim.by}


def _serve(claim: _Claimed, step: int) -> None:
    """Take a claim out of one pool after the other; what only may fit, where the least is counted."""
    for pool in (pool for pool, how in claim.pools if how == step):
        for at in range(3) if step != MAYBE else (LEAST,):
            taken = min(claim.left[at], pool.left[at])
            pool.left[at] -= taken
            claim.left[at] -= taken
            if taken and not claim.by:
                claim.by, claim.sure = pool.urn, step != MAYBE


def _share(claim: _Claimed) -> Share:
    low, expected, high = (
        all_ - left for all_, left in zip(_three(claim.demand.count), claim.left, strict=True)
    )
    given = Range(min(low, expected, high), expected, max(low, expected, high))
    return Share(given, Range.spanning(*claim.left), claim.by, claim.sure)


def _three(of: Range) -> list[Decimal]:
    return [of.low, of.expected, of.high]


def _kind(demand: Demand) -> tuple[object, ...]:
    """Return what must be the same of capacity and of what runs in it."""
    return (demand.cloud, demand.region, demand.items, demand.part, demand.size)


def _fitting(claim: Claim, pools: Iterable[_Pool]) -> Iterator[tuple[_Pool, int]]:
    """Give the pools that a machine may run in, and how it comes there."""
    for pool in pools:
        how = _fits(claim, pool.demand.offer) if pool.demand.offer else None
        if how is not None:
            yield pool, how


def _fits(claim: Claim, offer: Offer) -> int | None:
    """Tell whether capacity of the right kind is there for this machine."""
    if claim.make and offer.make and claim.make != offer.make:
        return None
    if claim.target is not None:
        return NAMED if claim.target in offer.names else None
    if not (claim.open and offer.open):
        return None
    if offer.zone is None or claim.zone is None:
        elsewhere = offer.zone is not None and claim.among and offer.zone not in claim.among
        return None if elsewhere else MAYBE
    return SURE if offer.zone == claim.zone else None

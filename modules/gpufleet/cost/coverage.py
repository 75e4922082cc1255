"""Who runs inside a reservation: capacity held by the stack bills once, not again per instance in it.

Reservations bill their whole count, used or not. A machine that targets a reservation (or, where the cloud
lets it, matches an open one of the same type and zone) costs nothing more, up to the reserved count; the
surplus bills as usual. Claims are served in the order of their URNs, so that the answer does not depend on
the order in which resources are listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.cost.demand import Demand
from gpufleet.cost.money import NOTHING, Range

Held = tuple[str, Demand]  # the URN of a resource and one demand of it


@dataclass
class _Pool:
    """What is left of one offer."""

    urn: str
    demand: Demand
    left: Range


def covered(demands: Iterable[Held]) -> dict[tuple[str, str], tuple[Range, str]]:
    """Return how many of each claim are covered, and by whom: (urn, component) -> (count, reservation)."""
    listed = sorted(demands, key=lambda held: (held[0], held[1].component))
    pools: dict[tuple[object, ...], list[_Pool]] = {}
    for urn, demand in listed:
        if demand.offer:
            pools.setdefault(_kind(demand), []).append(_Pool(urn, demand, demand.count))
    found = {}
    for urn, demand in listed:
        fitting = [pool for pool in pools.get(_kind(demand), ()) if _fits(pool.demand, demand)]
        taken, first = _served(demand, fitting)
        if taken != NOTHING:
            found[(urn, demand.component)] = (taken, first)
    return found


def _served(demand: Demand, pools: list[_Pool]) -> tuple[Range, str]:
    """Take a demand out of one pool after the other; return how much is held, and where first."""
    whole, first = NOTHING, ""
    for pool in pools:
        taken = _lesser(demand.count.beyond(whole), pool.left)
        pool.left = pool.left.beyond(taken)
        first = first or (pool.urn if taken != NOTHING else "")
        whole += taken
    return whole, first


def _kind(demand: Demand) -> tuple[object, ...]:
    """Return what must be the same of capacity and of what runs in it."""
    return (demand.cloud, demand.region, demand.items, demand.part)


def _fits(held: Demand, wanted: Demand) -> bool:
    """Tell whether capacity of the right kind is there for this machine."""
    offer, claim = held.offer, wanted.claim
    if offer is None or claim is None:
        return False
    if claim.target is not None:
        return claim.target in offer.names
    same_zone = None in (offer.zone, claim.zone) or offer.zone == claim.zone
    return claim.open and offer.open and same_zone


def _lesser(one: Range, other: Range) -> Range:
    return Range(min(one.low, other.low), min(one.expected, other.expected), min(one.high, other.high))

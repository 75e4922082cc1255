"""How a resource is bought, for how many hours, and in which pool: read from the tags that pools carry.

A resource without our tags is on demand, bills 730 hours a month and is grouped under its parent component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.engine import Marker, Resource

TERMS = ("reserved_1y", "reserved_3y")
OWNER_TAGS = ("gpufleet-owner", "owner", "Owner")  # our own, then what other people's programs use


@dataclass(frozen=True)
class Terms:
    """``purchase`` is on_demand, spot, reserved, reserved_1y or reserved_3y; ``hours`` the planned month.

    ``max_price`` is the most that is paid for an hour of spot: where the market asks more, nothing runs.
    """

    purchase: str = "on_demand"
    fallback: bool = False
    hours: Decimal = HOURS_PER_MONTH
    pool: str = ""
    owner: str = ""
    max_price: Decimal | None = None
    unsure: bool = False  # whether it is spot is not known: on-demand then bounds it

    @property
    def reserved(self) -> bool:
        """Tell whether capacity is held: it bills around the clock, used or not."""
        return self.purchase.startswith("reserved")

    @property
    def billed_hours(self) -> Decimal:
        """Return the hours of a month that bill."""
        return HOURS_PER_MONTH if self.reserved else self.hours


PLAIN = Terms()


def tags(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return a resource's tags or labels, in any of the shapes that the three clouds use."""
    found: dict[str, str] = {}
    for field in ("tags", "labels"):
        held = read_value(inputs, field)
        if isinstance(held, Mapping):
            plain = (pair for pair in held.items() if pair[1] is not None and not isinstance(pair[1], Marker))
            found |= {str(key): str(value) for key, value in plain}
        for pair in read_list(inputs, field):
            key, value = read_text(pair, "key"), read_text(pair, "value")
            if isinstance(key, str) and isinstance(value, str):
                found[key] = value
    return found


def read_terms(resource: Resource, *templates: Resource | None, spot: bool | Marker | None = None) -> Terms:
    """Read the terms of a resource; what it leaves out may be tagged on its templates or owner.

    ``spot`` is what the resource's own market setting says, which outranks a tag.
    """
    tagged: dict[str, str] = {}
    for source in (*reversed(templates), resource):
        tagged |= tags(source.inputs) if source else {}
    said = tagged.get("gpufleet-purchase", "on_demand").replace("-", "_")
    hours = read_number(tagged, "gpufleet-hours-per-month")
    return Terms(
        purchase=_market(said, spot),
        fallback=tagged.get("gpufleet-fallback", "") in ("on_demand", "on-demand", "true"),
        hours=min(hours, HOURS_PER_MONTH) if isinstance(hours, Decimal) else HOURS_PER_MONTH,
        pool=tagged.get("gpufleet-pool", ""),
        owner=owner(tagged),
        unsure=isinstance(spot, Marker),
    )


def owner(tagged: Mapping[str, str]) -> str:
    """Return who owns what carries these tags, empty where they do not say."""
    return next((tagged[key] for key in OWNER_TAGS if tagged.get(key)), "")


def _market(said: str, spot: bool | Marker | None) -> str:
    if spot is True:
        return "spot"
    if spot is False and said == "spot":
        return "on_demand"
    return said if said in ("spot", "reserved", *TERMS) else "on_demand"

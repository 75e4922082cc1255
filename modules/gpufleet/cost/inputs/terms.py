"""Purchase terms of a resource, its hours and its pool, from the tags that pools set.

A resource without these tags is on demand, bills 730 hours a month and is grouped under its parent component. Tags that
set a price count only in a pool of gpufleet: anyone can write them, and what they say is true there alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.boundary import decode_json
from gpufleet.cost.inputs.values import (
    list_if_known,
    read_input,
    read_input_number,
    read_reference,
)
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.engine import StateResource, UnreadableValue
from gpufleet.errors import InputError

TERMS = ("reserved_1y", "reserved_3y")
LIMITED_TIME = ("capacity_block", "dws_flex")  # kinds for hours to days, with list prices of their own
PRICED_AS = {"committed_1y": "reserved_1y", "committed_3y": "reserved_3y", "flex_start": "dws_flex"}
# Inputs of providers with tags for each of their resources, and the key in them: AWS, Google.
DEFAULT_TAG_FIELDS = (("defaultTags", "tags"), ("defaultLabels", ""))
POOL_COMPONENTS = "gpufleet:cloud:"  # the types of the components that declare pools (gpufleet.cloud)
PRICE_TAGS = ("gpufleet-purchase", "gpufleet-hours-per-month", "gpufleet-fallback")
OWNER_TAGS = ("gpufleet-owner", "owner", "Owner")  # ours first, then common ones


@dataclass(frozen=True)
class PurchaseTerms:
    """``purchase`` is on_demand, spot, reserved, one of TERMS or LIMITED_TIME; ``hours`` the planned hours a month.

    Reserved capacity and a commitment without capacity cost the same: both are reserved_1y or reserved_3y here.

    ``max_price`` is the highest price for an hour of spot: above it nothing runs.
    """

    purchase: str = "on_demand"
    has_fallback: bool = False
    hours: Decimal = HOURS_PER_MONTH
    pool: str = ""
    owner: str = ""
    max_price: Decimal | None = None
    is_spot_unknown: bool = False  # spot or on-demand is unknown: on-demand is the upper bound

    @property
    def is_reserved(self) -> bool:
        """True for reserved capacity, which bills all hours."""
        return self.purchase.startswith("reserved")

    @property
    def billed_hours_per_month(self) -> Decimal:
        """Return the billed hours a month."""
        return HOURS_PER_MONTH if self.is_reserved else self.hours


DEFAULT_TERMS = PurchaseTerms()


def read_resource_tags(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return a resource's tags or labels, in any of the three clouds' formats."""
    merged_tags: dict[str, str] = {}
    for field in ("tagsAll", "tags", "labels"):  # the first has the provider's as well
        mapping = read_input(inputs, field)
        if isinstance(mapping, Mapping):
            known_pairs = (
                pair
                for pair in mapping.items()
                if pair[1] is not None and not isinstance(pair[1], UnreadableValue)
            )
            merged_tags |= {str(key): str(value) for key, value in known_pairs}
        for pair in list_if_known(mapping):
            key, value = read_reference(pair, "key"), read_reference(pair, "value")
            if isinstance(key, str) and isinstance(value, str):
                merged_tags[key] = value
    return merged_tags


def is_in_pool(resource: StateResource) -> bool:
    """Return whether a resource is in a component of a pool, by the types in its parent's URN."""
    urn = resource.parent or resource.urn
    types = urn.split("::", 3)[2] if urn.count("::") > 2 else ""  # noqa: PLR2004 - stack, project, types, name
    return any(each.startswith(POOL_COMPONENTS) for each in types.split("$"))


def read_pool_tags(resource: StateResource) -> dict[str, str]:
    """Return the tags or labels of a resource that may set its price: none outside a pool."""
    return read_resource_tags(resource.inputs) if is_in_pool(resource) else {}


def read_default_tags(provider: StateResource) -> dict[str, str]:
    """Return the tags or labels that a provider gives to each of its resources (``aws:defaultTags``)."""
    merged_tags: dict[str, str] = {}
    for field, inner in DEFAULT_TAG_FIELDS:
        value = read_input(provider.inputs, field)
        if isinstance(value, str):  # a provider's own inputs are JSON in text
            with suppress(InputError):
                value = decode_json(value, f"{provider.name} {field}")
        merged_tags |= read_resource_tags({"tags": read_input(value, inner) if inner else value})
    return merged_tags


def read_purchase_terms(
    resource: StateResource,
    *templates: StateResource | None,
    spot: bool | UnreadableValue | None = None,
    default_tags: Mapping[str, str] | None = None,
) -> PurchaseTerms:
    """Return the terms of a resource; missing tags come from its templates, then from ``default_tags``.

    ``default_tags`` set its pool and its owner only. ``spot`` is the resource's own market setting, which has priority
    over a tag.
    """
    all_tags, pool_tags = dict(default_tags or {}), dict[str, str]()
    for source in (*reversed(templates), resource):
        all_tags |= read_resource_tags(source.inputs) if source else {}
        pool_tags |= read_pool_tags(source) if source else {}
    purchase = pool_tags.get("gpufleet-purchase", "on_demand").replace("-", "_")
    hours = read_input_number(pool_tags, "gpufleet-hours-per-month")
    return PurchaseTerms(
        purchase=_resolve_purchase(purchase, spot),
        has_fallback=pool_tags.get("gpufleet-fallback", "") in ("on_demand", "on-demand", "true"),
        hours=min(hours, HOURS_PER_MONTH) if isinstance(hours, Decimal) else HOURS_PER_MONTH,
        pool=all_tags.get("gpufleet-pool", ""),
        owner=find_owner_tag(all_tags),
        is_spot_unknown=isinstance(spot, UnreadableValue),
    )


def find_owner_tag(all_tags: Mapping[str, str]) -> str:
    """Return the owner in a resource's tags, empty if there is none."""
    return next((all_tags[key] for key in OWNER_TAGS if all_tags.get(key)), "")


def _resolve_purchase(purchase: str, spot: bool | UnreadableValue | None) -> str:
    if spot is True:
        return "spot"
    if spot is False and purchase == "spot":
        return "on_demand"
    priced = PRICED_AS.get(purchase, purchase)
    return priced if priced in ("spot", "reserved", *TERMS, *LIMITED_TIME) else "on_demand"

"""Services whose charges are a table: ``data/service_charges_aws.csv`` has one row for each charge of a type.

``item`` is a part of the price list; ``{key|default}`` in it is a text input, ``{key?text}`` a text that is there if
the input is true. ``quantity`` is one of:

* ``1``, or another fixed number;
* ``count:key`` the number at that input, or the length of its list; ``count:key|2`` with a default;
* ``copies:key`` two if that input is true, else one;
* ``use:key`` and ``stored:key`` an amount of the usage file that is used up, or kept during the month.

``listed`` is ``no`` for a charge by use that only appears with an amount. ``scope`` is ``global`` for services
without a region.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.reading import is_list
from gpufleet.cost.inputs.values import (
    is_input_true,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.native import COUNTERPARTS
from gpufleet.cost.pricing.pricers.aws.rds import parse_copies
from gpufleet.cost.pricing.pricers.aws.service import (
    GLOBAL,
    make_counted_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

BY_USE = ("use", "stored")
EARLIER_NAMES = {"aws:s3/bucketV2:BucketV2": "aws:s3/bucket:Bucket"}  # of version 6 of the provider
_PLACEHOLDER = re.compile(r"\{([\w.]+)(?:\|([\w.-]+)|\?([\w:]+))?\}")


@dataclass(frozen=True)
class DeclaredCharge:
    """One charge of a type of resource."""

    component: str
    item: str
    kind: str  # fixed, count, copies, use or stored
    key: str
    default: Decimal | None
    is_global: bool
    is_listed: bool

    @property
    def is_by_use(self) -> bool:
        """True if the usage file has the amount."""
        return self.kind in BY_USE


@cache
def load_declared_charges() -> dict[str, tuple[DeclaredCharge, ...]]:
    """Return the charges of each type."""
    charges: dict[str, tuple[DeclaredCharge, ...]] = {}
    for row in read_packaged_rows("gpufleet.cost", "data/service_charges_aws.csv"):
        kind, _, argument = row["quantity"].rpartition(":")
        key, _, default = argument.partition("|")
        charge = DeclaredCharge(
            row["component"],
            row["item"],
            kind or "fixed",
            key,
            Decimal(default) if default else Decimal(key) if not kind else None,
            row["scope"] == GLOBAL,
            row["listed"] != "no",
        )
        charges[row["type"]] = (*charges.get(row["type"], ()), charge)
    other_names = EARLIER_NAMES | COUNTERPARTS
    return charges | {other: charges[name] for other, name in other_names.items() if name in charges}


def price_declared_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the charges that the table has for a type."""
    usage = graph.usage_of_resource(resource)
    components: Components = []
    for charge in load_declared_charges()[resource.type]:
        if charge.is_by_use and not charge.is_listed and charge.key not in usage.amounts:
            continue
        context = make_service_context(resource, graph, GLOBAL if charge.is_global else None)
        item = _resolve_item(resource, charge)
        if isinstance(item, UnpricedComponent):
            components.append(item)
        elif charge.is_by_use:
            is_stored = charge.kind == "stored"
            components.append(
                context.make_usage_component(charge.component, item, charge.key, usage, is_stored=is_stored)
            )
        else:
            components += _counted_components(resource, graph, charge, item, context)
    return components


def _resolve_item(resource: StateResource, charge: DeclaredCharge) -> str | UnpricedComponent:
    """Return the price list's name, with the inputs that it is made of."""
    item = charge.item
    for match in _PLACEHOLDER.finditer(charge.item):
        key, default, text_if_true = match.groups()
        path = key.split(".")
        if text_if_true and read_input_marker(resource.inputs, *path) is None:
            item = item.replace(match[0], text_if_true if is_input_true(resource.inputs, *path) else "")
            continue
        text = read_input_text(resource.inputs, *path)
        value = text_or_unpriced(default if text is None else text, key, charge.component)
        if isinstance(value, UnpricedComponent):
            return value
        item = item.replace(match[0], value.lower())
    return item


def _counted_components(
    resource: StateResource,
    graph: ResourceGraph,
    charge: DeclaredCharge,
    item: str,
    context: MachinePartContext,
) -> Components:
    count = _find_count(resource, charge)
    if isinstance(count, UnpricedComponent):
        return [count]
    if count == Range.from_exact_value(0):
        return []
    hours = graph.usage_of_resource(resource).hours_per_month
    billed = context if hours is None else context.with_billed_hours(hours)
    return [make_counted_component(billed, charge.component, item, count)]


def _find_count(resource: StateResource, charge: DeclaredCharge) -> Range | UnpricedComponent:
    path = charge.key.split(".")
    if charge.kind == "fixed":
        return Range.from_exact_value(charge.default or 1)
    if charge.kind == "copies":
        return parse_copies(read_input(resource.inputs, *path))
    value = read_input(resource.inputs, *path)
    if is_list(value):
        return Range.from_exact_value(len(read_input_list(resource.inputs, *path)))
    number = number_or_unpriced(
        read_input_number(resource.inputs, *path), charge.key, charge.component, charge.default
    )
    return number if isinstance(number, UnpricedComponent) else Range.from_exact_value(number)

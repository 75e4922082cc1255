"""Inputs that bill and that no pricer reads (``data/unpriced_inputs.csv``): tiers, reserved capacity, protection, logs.

Columns of the table: ``type`` and ``input`` (a path; lists on the way are entered, ``*`` is any key); ``bills`` and
``free``, patterns of values that bill and that do not, separated by spaces; ``since``, the day from which they bill.
``counts`` says when an input has an effect of unknown cost:

* ``always``: its value bills by itself, so the resource has a part without a price;
* ``machines``: so have the machines that refer to the resource: through a template, a subnet, a network;
* ``change``: nearly every resource has it, and it bills by use: only a change of a live resource counts.

``by_use`` is ``yes`` for what bills by use only: without an amount of use there is nothing to price.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.graph import ResourceGraph, strip_api_version
from gpufleet.cost.inputs.values import MARKER_REASONS
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers import find_pricer
from gpufleet.engine import StateResource, UnreadableValue

NOTHING = frozenset({"", "0", "0.0", "false", "none", "disabled", "off", "null"})
MACHINES = ("machine", "instance")  # components of what runs in a network
LONGEST_SHOWN = 40


@dataclass(frozen=True)
class UnpricedInput:
    """One row of the table."""

    path: str
    bills: tuple[str, ...]
    free: tuple[str, ...]
    counts: str
    since: date | None
    is_by_use: bool
    why: str

    def list_billed_values(self, inputs: Any) -> tuple[str, ...]:
        """Return the values at the path that bill, sorted."""
        return tuple(sorted(filter(self._is_billed, _find_values(inputs, tuple(self.path.split("."))))))

    def _is_billed(self, value: str) -> bool:
        text = value.lower()
        if text in NOTHING or any(fnmatchcase(text, pattern) for pattern in self.free):
            return False
        return value in MARKER_REASONS.values() or any(fnmatchcase(text, pattern) for pattern in self.bills)

    def make_component(self, values: tuple[str, ...]) -> UnpricedComponent:
        """Return the part without a price that these values make."""
        shown = ", ".join(value for value in values if value[:1] != "{" and len(value) <= LONGEST_SHOWN)
        return UnpricedComponent(
            f"{self.path}{f' {shown}' if shown else ''}: {self.why}",
            f"input:{self.path}",
            is_by_use=self.is_by_use,
        )


@cache
def find_unpriced_inputs(type_token: str) -> tuple[UnpricedInput, ...]:
    """Return the inputs of a type that bill and have no price."""
    return tuple(row for pattern, row in _load_table() if fnmatchcase(type_token, pattern))


@cache
def _load_table() -> tuple[tuple[str, UnpricedInput], ...]:
    rows = read_packaged_rows("gpufleet.cost", "data/unpriced_inputs.csv")
    return tuple(
        (
            row["type"],
            UnpricedInput(
                row["input"],
                tuple(row["bills"].lower().split()) or ("*",),
                tuple(row["free"].lower().split()),
                row["counts"],
                date.fromisoformat(row["since"]) if row["since"] else None,
                row.get_choice("by_use", ("", "yes")) == "yes",
                row["why"],
            ),
        )
        for row in rows
    )


def list_unpriced_inputs(resource: StateResource, priced: Components, graph: ResourceGraph) -> Components:
    """Return the parts without a price of a resource by its inputs, and of the machines in it by its network."""
    own = _list_own(resource, graph, ("always", "machines"))
    has_machines = any(
        isinstance(each, CostComponent) and each.component.partition(":")[0] in MACHINES for each in priced
    )
    inherited = _list_of_references(resource, graph) if has_machines else ()
    return [*{each.component: each for each in (*own, *inherited)}.values()]


def _list_own(
    resource: StateResource, graph: ResourceGraph, counts: tuple[str, ...]
) -> Iterator[UnpricedComponent]:
    for row in find_unpriced_inputs(strip_api_version(resource.type)):
        if row.counts in counts and (row.since is None or row.since <= graph.on_date):
            values = row.list_billed_values(resource.inputs)
            if values:
                yield row.make_component(values)


def _list_of_references(resource: StateResource, graph: ResourceGraph) -> Iterator[UnpricedComponent]:
    """Yield what the templates and networks of a machine bill with it, also through what has no pricer."""
    pending, visited = [resource], {resource.urn}
    while pending:
        for urn in {urn for urns in pending.pop().property_dependencies.values() for urn in urns} - visited:
            visited.add(urn)
            each = graph.get_resource(urn)
            if each is not None and find_pricer(strip_api_version(each.type)) is None:
                yield from _list_own(each, graph, ("machines",))
                pending.append(each)


def _find_values(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the values at a path as texts; a mapping as JSON, without one if nothing in it is set."""
    if value is None:
        return
    if isinstance(value, UnreadableValue):
        yield MARKER_REASONS[value]
    elif isinstance(value, Mapping) and path:
        steps = value.values() if path[0] == "*" else [value.get(path[0])]
        for each in steps:
            yield from _find_values(each, path[1:])
    elif isinstance(value, Mapping):
        leaves = [text for each in value.values() for text in _find_values(each, ())]
        if not value or any(text.lower() not in NOTHING for text in leaves):
            yield json.dumps(value, sort_keys=True, default=str)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _find_values(each, path)
    elif not path:
        yield str(value)

"""Price a resource of which an input is unreadable: that input takes nothing along that does not depend on it.

A pricer may end at the first input that it cannot read. It then runs twice more, with different stand-ins for what is
unreadable. What comes out alike does not depend on them and is priced; what differs is listed by its name.

Pricers on ``pricers.reader`` list what they cannot read themselves and record nothing here, so they run once. When the
last pricer is on the reader, this module and the stand-ins of ``inputs.reading`` go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.reading import STAND_INS, Reading, StandIns, call_with_reading
from gpufleet.cost.pricing.component import Component, Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.engine import StateResource


def price_with_neighbours(pricer: Pricer, resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the components of a resource; those that an unreadable input hides are priced or listed."""
    components, reading = _run_pricer(pricer, resource, graph)
    if not reading.has_unreadable:
        return components
    runs = [_run_pricer(pricer, resource, graph, stand_ins)[0] for stand_ins in STAND_INS]
    found = [*components, *_list_ignored_inputs(reading)]
    found += _find_neighbours(found, runs, reading)
    has_line = any(isinstance(each, UnpricedComponent) for each in found)
    return found if has_line else [_with_note(each, reading) for each in found]


def _run_pricer(
    pricer: Pricer, resource: StateResource, graph: ResourceGraph, stand_ins: StandIns | None = None
) -> tuple[Components, Reading]:
    return call_with_reading(lambda: list(pricer(resource, graph)), stand_ins)


def _list_ignored_inputs(reading: Reading) -> Iterator[UnpricedComponent]:
    """Yield the inputs that a pricer took for absent because they are unreadable."""
    for name, reason in sorted(reading.list_ignored().items()):
        yield UnpricedComponent(f"this input is {reason}: what it may add is not priced", name)


def _find_neighbours(found: Components, runs: list[Components], reading: Reading) -> Iterator[Component]:
    """Yield what the runs with stand-ins have and the first one has not."""
    names = {each.component for each in found}
    listed = {each.component for each in found if isinstance(each, UnpricedComponent)}
    reason = f"not known without {reading.list_names()}"
    for each in (component for run in runs for component in run):
        if each.component in names or _is_part_of_any(each.component, listed):
            continue
        names.add(each.component)
        is_independent = all(each in run for run in runs)
        yield each if is_independent else UnpricedComponent(reason, each.component)


def _with_note(component: Component, reading: Reading) -> Component:
    """Return a component with a note of the inputs that the pricer did without."""
    if isinstance(component, UnpricedComponent) or component.note:
        return component
    return replace(component, note=f"priced without {reading.list_names()}")


def _is_part_of_any(name: str, others: Iterable[str]) -> bool:
    return any(other and name.startswith(f"{other}:") for other in others)

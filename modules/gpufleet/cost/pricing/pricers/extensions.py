"""Pricers that other distributions bring, found by the entry-point group ``gpufleet.pricers``.

Such an entry point names a mapping of resource types to pricers, in its distribution's own package::

    [project.entry-points."gpufleet.pricers"]
    acme = "acme_pricers:PRICERS"

A pricer of ours for the same type gives way. One that cannot be loaded is told at once; one that fails over a
resource leaves that resource without price, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import Resource
from gpufleet.errors import EnvironmentFault

GROUP = "gpufleet.pricers"
Pricer = Callable[[Resource, Graph], Components]


@cache
def load_extension_pricers() -> dict[str, Pricer]:
    """Return the pricers of all distributions that are installed."""
    found: dict[str, Pricer] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found |= {kind: _guarded(pricer, entry) for kind, pricer in _load(entry).items()}
    return found


def _load(entry: EntryPoint) -> Mapping[str, Pricer]:
    whose = f"pricers {entry.name} of {entry.dist.name if entry.dist else entry.value}"
    try:
        table = entry.load()
    except Exception as error:
        raise EnvironmentFault(
            f"{whose} cannot be loaded: {type(error).__name__}: {error}", hint="repair or uninstall it"
        ) from error
    if not isinstance(table, Mapping) or not all(callable(pricer) for pricer in table.values()):
        raise EnvironmentFault(
            f"{whose} are not a mapping of resource types to functions",
            hint="see docs/cost-other-programs.md",
        )
    return table


def _guarded(pricer: Pricer, entry: EntryPoint) -> Pricer:
    """Return a pricer whose failure leaves one resource without price and the bill whole."""

    def guarded(resource: Resource, graph: Graph) -> Components:
        try:
            return list(pricer(resource, graph))
        except Exception as error:  # noqa: BLE001 - another distribution's code may fail in any way
            return [UnpricedComponent(f"the pricer {entry.name} failed: {type(error).__name__}: {error}")]

    return guarded

"""Pricers that other distributions add by the entry-point group ``gpufleet.pricers``.

Such an entry point names a mapping of resource types to pricers, in its distribution's own package::

    [project.entry-points."gpufleet.pricers"]
    acme = "acme_pricers:PRICERS"

It replaces our pricer for the same type. A mapping that cannot be loaded raises an error. A pricer that fails
leaves its resource without a price, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import StateResource
from gpufleet.errors import EnvironmentFault

GROUP = "gpufleet.pricers"
Pricer = Callable[[StateResource, ResourceGraph], Components]


def import_modules(package: str) -> None:
    """Import the modules of a package, which register their pricers."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


@cache
def load_extension_pricers() -> dict[str, Pricer]:
    """Return the pricers of all installed distributions, by resource type."""
    pricers: dict[str, Pricer] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        pricers |= {type_: _guard_pricer(pricer, entry) for type_, pricer in _load_mapping(entry).items()}
    return pricers


def _load_mapping(entry: EntryPoint) -> Mapping[str, Pricer]:
    description = f"pricers {entry.name} of {entry.dist.name if entry.dist else entry.value}"
    try:
        mapping = entry.load()
    except Exception as error:
        raise EnvironmentFault(
            f"{description} cannot be loaded: {type(error).__name__}: {error}", hint="repair or uninstall it"
        ) from error
    if not isinstance(mapping, Mapping) or not all(callable(pricer) for pricer in mapping.values()):
        raise EnvironmentFault(
            f"{description} are not a mapping of resource types to functions",
            hint="see docs/cost-other-programs.md",
        )
    return mapping


def _guard_pricer(pricer: Pricer, entry: EntryPoint) -> Pricer:
    """Return a pricer that reports its own failure as an unpriced component."""

    def price_or_report_failure(resource: StateResource, graph: ResourceGraph) -> Components:
        try:
            return list(pricer(resource, graph))
        except Exception as error:  # noqa: BLE001 - another distribution's code may fail in any way
            reason = f"the pricer {entry.name} failed: {type(error).__name__}: {error}"
            return [UnpricedComponent(reason)]

    return price_or_report_failure

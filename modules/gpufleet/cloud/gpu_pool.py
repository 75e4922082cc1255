"""Components for any Pulumi program: ``from gpufleet.cloud import GpuPool, Rack``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Unpack

import pulumi

from gpufleet.cloud.azure_subscription import check_azure_subscription
from gpufleet.cloud.fleet_declaration import load_pool_builder
from gpufleet.cloud.onprem import RackArgs, RackComponent
from gpufleet.cloud.pool_args import GpuPoolArgsDict
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.cloud.program_call import find_program_call
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet, FleetSpec, Pool, parse_fleet

# What a pool takes of a fleet: its account is aws, gcp or azure, or the provider in ``opts``.
FLEET_KEYS = frozenset(FleetSpec.model_fields) - {
    "pools", "workstations", "racks", "budget_usd_per_month", "accounts"
}  # fmt: skip


class GpuPool(pulumi.ComponentResource):
    """A pool of GPU machines with a network of its own, on any cloud that gpufleet knows.

    ``settings`` are the keys of a pool (``cloud``, ``region``, ``machine``, ``count``, ``purchase``, …) and those of
    a fleet that it needs (``owner``, ``ssh``, ``templates``, …), as docs/spec.md has them. The same rules apply: a
    mistake is a ``pulumi.RunError`` of one line with the place in the program.

    ``nodes`` are the facts of the separate nodes, ``groups`` the cloud's groups with the other nodes.
    """

    nodes: pulumi.Output[list[dict[str, Any]]]
    groups: pulumi.Output[list[dict[str, Any]]]

    def __init__(
        self, name: str, opts: pulumi.ResourceOptions | None = None, **settings: Unpack[GpuPoolArgsDict]
    ) -> None:
        """Check the settings by the rules, then declare the network and the pool as children."""
        with _locate_mistakes(place := f'GpuPool "{name}"'):
            fleet = _parse_settings(name, settings, place)
            check_azure_subscription(fleet, place, opts)
            super().__init__("gpufleet:cloud:GpuPool", name, {}, opts)
            builder = load_pool_builder(fleet.pools[0].cloud)
            plan = PoolPlan(fleet, fleet.pools[0], origin=place)
            options = pulumi.ResourceOptions(parent=self)
            (component,) = builder(_name_network(fleet, name), [plan], options, f"{name}-")
        self.nodes, self.groups = component.nodes, component.groups
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})


class Rack(RackComponent):
    """A rack of one's own, for the cost report and the state: ``inventory/NAME.yaml`` of the project declares it.

    ``inventory`` names another file there. ``template`` is recorded as the template of its nodes.
    """

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        inventory: str | None = None,
        template: str | None = None,
    ) -> None:
        """Read the rack's file, and record its facts."""
        with _locate_mistakes(place := f'Rack "{name}"'):
            spec = {
                "owner": "program",
                "racks": [{"name": name, "inventory": inventory}],
            }  # a rack has no owner
            fleet = parse_fleet(spec, stack=pulumi.get_stack(), where=place)
            facts = replace(RackArgs.from_rack(fleet.racks[0]), template=template)
            super().__init__(name, facts, opts)


@contextmanager
def _locate_mistakes(component: str) -> Iterator[None]:
    """Turn an InputError into one line with its place in the program, where Pulumi would print a traceback."""
    try:
        yield
    except InputError as error:
        located = find_program_call(component).locate_error(error)
        raise pulumi.RunError(str(located)) from located


def _parse_settings(name: str, settings: Mapping[str, Any], place: str) -> Fleet:
    """Return the fleet of one pool that the settings describe, before any resource is registered."""
    for key in _find_outputs(settings):
        raise InputError(
            "is a Pulumi output, but a pool is checked and priced before outputs have values",
            where=place,
            key=key,
            remedy="give a plain value",
        )
    fleet_settings = {key: value for key, value in settings.items() if _is_fleet_key(key)}
    pool_settings = {key: value for key, value in settings.items() if key not in fleet_settings}
    spec = {**fleet_settings, "pools": [{"name": name, **pool_settings}]}
    return parse_fleet(spec, stack=pulumi.get_stack(), root=Path.cwd(), where=place)


def _is_fleet_key(key: str) -> bool:
    """Return whether a key is one of a fleet's; a misspelt one counts as what it is meant to be."""
    known = {*FLEET_KEYS, *Pool.model_fields}
    meant = [key] if key in known else get_close_matches(key, known, n=1)
    return FLEET_KEYS.issuperset(meant) and bool(meant)


def _find_outputs(value: Any, key: str = "") -> Iterator[str]:
    """Yield the key of each Pulumi output in a value."""
    if isinstance(value, pulumi.Output):
        yield key
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _find_outputs(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _find_outputs(item, f"{key}[{index}]")


def _name_network(fleet: Fleet, pool_name: str) -> Fleet:
    """Return the fleet under a name that the network of no other pool of the stack has."""
    return fleet.model_copy(update={"stack": f"{fleet.stack}-{pool_name}"})

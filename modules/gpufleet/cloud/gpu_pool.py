"""A pool for any Pulumi program: ``from gpufleet.cloud import GpuPool``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi

from gpufleet.cloud.azure_subscription import check_azure_subscription
from gpufleet.cloud.fleet_declaration import load_pool_builder
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet, FleetSpec, parse_fleet

FLEET_KEYS = frozenset(FleetSpec.model_fields) - {"pools", "workstations", "racks", "budget_usd_per_month"}


class GpuPool(pulumi.ComponentResource):
    """A pool of GPU machines with a network of its own, on any cloud that gpufleet knows.

    ``settings`` are the keys of a pool (``cloud``, ``region``, ``machine``, ``count``, ``purchase``, …) and those of
    a fleet that it needs (``owner``, ``ssh``, ``templates``, …), as docs/spec.md has them. The same rules apply.

    ``nodes`` are the facts of the separate nodes, ``groups`` the cloud's groups with the other nodes.
    """

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **settings: Any) -> None:
        """Check the settings by the rules, then declare the network and the pool as children."""
        try:
            fleet = _parse_settings(name, settings, opts)
            super().__init__("gpufleet:cloud:GpuPool", name, {}, opts)
            component = self._declare(name, fleet)
        except InputError as error:
            raise pulumi.RunError(
                str(error)
            ) from error  # one line, where a plain exception prints a traceback
        self.nodes, self.groups = component.nodes, component.groups
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

    def _declare(self, name: str, fleet: Fleet) -> Any:
        builder = load_pool_builder(fleet.pools[0].cloud)
        options = pulumi.ResourceOptions(parent=self)
        plan = PoolPlan(fleet, fleet.pools[0], origin=_describe_place(name))
        (component,) = builder(_name_network(fleet, name), [plan], options, f"{name}-")
        return component


def _describe_place(name: str) -> str:
    return f"GpuPool({name!r})"


def _parse_settings(name: str, settings: dict[str, Any], opts: pulumi.ResourceOptions | None) -> Fleet:
    """Return the fleet of one pool that the settings describe, before any resource is registered."""
    place = _describe_place(name)
    for key, value in settings.items():
        if isinstance(value, pulumi.Output):
            raise InputError("is a Pulumi output", where=f"{place}: {key}", remedy="give a plain value")
    fleet_settings = {key: value for key, value in settings.items() if key in FLEET_KEYS}
    pool_settings = {key: value for key, value in settings.items() if key not in FLEET_KEYS}
    spec = {**fleet_settings, "pools": [{"name": name, **pool_settings}]}
    fleet = parse_fleet(spec, stack=pulumi.get_stack(), root=Path.cwd(), where=place)
    check_azure_subscription(fleet, place, opts)
    return fleet


def _name_network(fleet: Fleet, pool_name: str) -> Fleet:
    """Return the fleet under a name that the network of no other pool of the stack has."""
    return fleet.model_copy(update={"stack": f"{fleet.stack}-{pool_name}"})

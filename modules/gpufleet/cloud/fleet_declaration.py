"""Declare the resources of a fleet: racks and workstations, then the pools cloud by cloud."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from typing import Any, Protocol, cast

import pulumi

from gpufleet import catalog
from gpufleet.cloud.azure_subscription import check_azure_subscription
from gpufleet.cloud.onprem import RackArgs, RackComponent, WorkstationArgs, WorkstationComponent
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.extra import explain_missing_packages
from gpufleet.fleet import Fleet, load_fleet, note_expiry, parse_fleet

PoolFacts = pulumi.Output[list[dict[str, Any]]]


class PoolComponent(Protocol):
    """A declared pool. ``nodes`` are its separate nodes, ``groups`` the cloud's groups with its other nodes."""

    nodes: PoolFacts
    groups: PoolFacts


class PoolBuilder(Protocol):
    """The function ``declare_pools`` of a cloud."""

    def __call__(
        self,
        fleet: Fleet,
        plans: Sequence[PoolPlan],
        opts: pulumi.ResourceOptions | None = None,
        prefix: str = "",
    ) -> Sequence[PoolComponent]:
        """Declare the pools and what they share, named with ``prefix`` and the stack of ``fleet``."""
        ...


def declare_stack() -> None:
    """Declare the fleet of the stack's file: all that a stack's program does.

    Raise RunError for a mistake in the file: Pulumi prints it as one line, and a traceback for other exceptions.
    """
    gc.disable()  # the SDKs load a million objects that stay; searching them for garbage took 2 of 7 seconds
    stack = pulumi.get_stack()
    try:
        spec = pulumi.Config("gpufleet").get_object("fleet")
        if spec is None:
            load_fleet(stack)  # says what is wrong with the file
        declare_fleet(parse_fleet(spec, stack=stack, where=f"stacks/Pulumi.{stack}.yaml"))
    except InputError as error:
        raise pulumi.RunError(str(error)) from error


def declare_fleet(fleet: Fleet) -> None:
    """Declare every resource of the fleet and export the stack outputs ``nodes``, ``groups`` and ``fabric``."""
    check_azure_subscription(fleet.select_account(None), f"stacks/Pulumi.{fleet.stack}.yaml")
    if note := note_expiry(fleet):
        pulumi.log.warn(note)
    for rack in fleet.racks:
        RackComponent(rack.name, RackArgs.from_rack(rack))
    for station in fleet.workstations:
        WorkstationComponent(station.name, WorkstationArgs.from_spec(station))
    components: list[PoolComponent] = []
    fabrics: list[dict[str, Any]] = []
    for part, cloud in product(fleet.split_by_account(), catalog.CLOUDS):
        plans = [PoolPlan(part, pool) for pool in part.pools if pool.cloud == cloud]
        if plans:
            build = load_pool_builder(cloud)
            components += (
                build(part, plans, prefix=f"{part.account}-") if part.account else build(part, plans)
            )
            fabrics += [plan.fabric_plan.as_output(plan.pool.name) for plan in plans if plan.fabric_plan]
    pulumi.export("nodes", _join_lists([component.nodes for component in components]))
    pulumi.export("groups", _join_lists([component.groups for component in components]))
    pulumi.export("fabric", fabrics)


def _join_lists(lists: Sequence[PoolFacts]) -> PoolFacts:
    return pulumi.Output.all(*lists).apply(lambda parts: [facts for part in parts for facts in part])


def load_pool_builder(cloud: str) -> PoolBuilder:
    """Return ``declare_pools`` of the cloud's module ``<cloud>_pool``; only now is its SDK imported.

    Raise InputError with the command that installs the SDK, if it is missing.
    """
    try:
        with explain_missing_packages():
            module = import_module(f"gpufleet.cloud.{cloud}_pool")
    except EnvironmentFault as fault:
        raise InputError(str(fault)) from None
    return cast("PoolBuilder", module.declare_pools)

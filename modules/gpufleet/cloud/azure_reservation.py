"""Capacity that a pool reserves on Azure: one group, in it one reservation per zone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from pulumi_azure_native import compute

from gpufleet.cloud.azure_parts import AzurePoolParts
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import slugify


def declare_reservation(parts: AzurePoolParts) -> AzurePoolParts:
    """Declare the reservations and their group if the pool creates them; return the parts with both.

    Azure reserves all machines of a reservation or none of them. Size and zones of a reservation cannot change,
    and Azure deletes none that machines use. So both are in its name: Pulumi creates the new one, then moves the
    machines, and deletes the old one at the end.
    """
    if not parts.plan.needs_reservation:
        return parts
    suffix = "".join(f"-{zone}" for zone in parts.plan.pool.zones)
    group = compute.CapacityReservationGroup(
        f"{parts.plan.pool.name}{suffix}",
        capacity_reservation_group_name=f"{parts.plan.node_name_prefix}{suffix}",
        zones=parts.zones,
        tags=parts.plan.build_tags(),
        **parts.location_arguments,
        opts=parts.child_options(),
    )
    reservations = tuple(
        _declare_zone_reservation(parts, group, zone, capacity)
        for zone, capacity in count_reserved_nodes(parts.plan).items()
    )
    return replace(parts, reservation_group=group, reservations=reservations)


def count_reserved_nodes(plan: PoolPlan) -> dict[str | None, int]:
    """Return how many nodes to reserve in each zone; the key None leaves the zone to Azure."""
    return dict(Counter(plan.zone_of_node(index) for index in range(plan.pool.count.max)))


def _declare_zone_reservation(parts: AzurePoolParts, group: Any, zone: str | None, capacity: int) -> Any:
    pool = parts.plan.pool
    size = slugify(pool.machine.removeprefix("Standard_"))
    name = f"{size}-{zone}" if zone else size
    return compute.CapacityReservation(
        f"{pool.name}-{name}",
        capacity_reservation_group_name=group.name,
        capacity_reservation_name=f"{parts.plan.node_name_prefix}-{name}",
        sku={"name": pool.machine, "capacity": capacity},
        zones=[zone] if zone else None,
        tags=parts.plan.build_tags(),
        **parts.location_arguments,
        opts=parts.child_options(),
    )

"""Nodes in an Azure scale set: an elastic pool, nodes that InfiniBand joins, spot nodes that Azure restores."""

from __future__ import annotations

from typing import Any

from pulumi_azure_native import compute, monitor

from gpufleet.cloud.azure_parts import AzurePoolParts
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan

MAX_PREFIX_LENGTH = 53  # Azure adds digits to make a computer name of at most 64 letters
PROFILE = "virtualMachineProfile."


def needs_scale_set(plan: PoolPlan) -> bool:
    """Return whether a scale set holds the nodes.

    Only a set has bounds, only a set joins machines by InfiniBand, and only a set restores evicted machines.
    """
    has_infiniband = plan.fabric == "infiniband" and plan.has_several_nodes
    return plan.needs_instance_group or has_infiniband or plan.pool.purchase.restore_minutes is not None


def declare_scale_set(parts: AzurePoolParts) -> Any:
    """Declare the scale set and, for an elastic pool, its bounds; return the set.

    InfiniBand reaches only machines of one Uniform set in one placement group, so of one zone. A set with a
    capacity reservation must not be limited to one placement group: rules refuse both at once.
    """
    plan, count = parts.plan, parts.plan.pool.count
    scale_set = compute.VirtualMachineScaleSet(
        plan.pool.name,
        vm_scale_set_name=plan.node_name_prefix,
        orchestration_mode="Uniform",  # InfiniBand does not exist in the other mode
        sku={"name": plan.pool.machine, "tier": "Standard", "capacity": count.desired},
        single_placement_group=plan.fabric == "infiniband",
        platform_fault_domain_count=1,
        overprovision=False,  # more machines than requested, even briefly, would cost and exceed a reservation
        upgrade_policy={"mode": "Manual"},  # a new model is for new machines, it replaces no running one
        virtual_machine_profile=_machine_profile(parts),
        spot_restore_policy=_restore_policy(plan),
        zones=parts.zones,
        tags=plan.build_tags(),
        **parts.location_arguments,
        opts=parts.machine_options(
            PROFILE,
            ignore_changes=["sku.capacity"] if count.is_elastic else None,
            replace_on_changes=["zones", "singlePlacementGroup", "orchestrationMode"],
        ),
    )
    if count.is_elastic:
        _declare_bounds(parts, scale_set)
    return scale_set


def _restore_policy(plan: PoolPlan) -> dict[str, Any] | None:
    """Return how long Azure tries to restore evicted machines; without it an eviction is final.

    Azure may start a machine again until the time is over, also if the work that needed it has ended.
    """
    minutes = plan.pool.purchase.restore_minutes
    return None if minutes is None else {"enabled": True, "restore_timeout": f"PT{minutes}M"}


def _machine_profile(parts: AzurePoolParts) -> dict[str, Any]:
    plan = parts.plan
    configuration = {"name": "primary", "primary": True, "subnet": {"id": parts.network.subnet.id}}
    if not parts.network.has_private_access:
        configuration["public_ip_address_configuration"] = {"name": "public", "sku": {"name": "Standard"}}
    card = {
        "name": "primary",
        "primary": True,
        "enable_accelerated_networking": True,
        "ip_configurations": [configuration],
    }
    return {
        "os_profile": {
            "computer_name_prefix": f"{plan.node_name_prefix[:MAX_PREFIX_LENGTH]}-",
            "admin_username": SSH_USER,
            "linux_configuration": parts.linux_configuration(),
            **parts.custom_data_arguments(),
        },
        "storage_profile": parts.storage_profile(is_scale_set=True),
        "network_profile": {"network_interface_configurations": [card]},
        **parts.security_arguments(),
        **parts.purchase_arguments(),
    }


def _declare_bounds(parts: AzurePoolParts, scale_set: Any) -> None:
    """Declare the bounds without a scaling rule: what scales the set decides between them."""
    plan, count = parts.plan, parts.plan.pool.count
    capacity = {"minimum": str(count.min), "maximum": str(count.max), "default": str(count.desired)}
    monitor.AutoscaleSetting(
        plan.pool.name,
        autoscale_setting_name=plan.node_name_prefix,
        enabled=True,
        profiles=[{"name": "bounds", "capacity": capacity, "rules": []}],
        target_resource_uri=scale_set.id,
        tags=plan.build_tags(),
        **parts.location_arguments,
        opts=parts.child_options(),
    )

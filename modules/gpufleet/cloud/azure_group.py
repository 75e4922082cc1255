"""Nodes in an Azure scale set: an elastic pool, or nodes that InfiniBand joins."""

from __future__ import annotations

from typing import Any

from pulumi_azure_native import compute, monitor

from gpufleet.cloud.azure_parts import AzurePoolParts
from gpufleet.cloud.pool_plan import SSH_USER

MAX_PREFIX_LENGTH = 53  # Azure adds digits to make a computer name of at most 64 letters


def declare_scale_set(parts: AzurePoolParts) -> None:
    """Declare the scale set and, for an elastic pool, its bounds.

    InfiniBand reaches only machines of one Uniform set in one placement group; it cannot be spread over zones.
    """
    plan, count = parts.plan, parts.plan.pool.count
    has_infiniband = plan.fabric == "infiniband"
    scale_set = compute.VirtualMachineScaleSet(
        plan.pool.name,
        vm_scale_set_name=plan.node_name_prefix,
        orchestration_mode="Uniform",
        sku={"name": plan.pool.machine, "tier": "Standard", "capacity": count.desired},
        single_placement_group=has_infiniband,
        platform_fault_domain_count=1,
        overprovision=False,  # more machines than requested, even briefly, would cost and exceed a reservation
        upgrade_policy={"mode": "Manual"},  # a new model is for new machines, it replaces no running one
        virtual_machine_profile=_machine_profile(parts),
        zones=parts.zones,
        tags=plan.build_tags(),
        **parts.location_arguments,
        opts=parts.child_options(
            depends_on=[parts.reservation] if parts.reservation else None,
            ignore_changes=["sku.capacity"] if count.is_elastic else None,
        ),
    )
    if count.is_elastic:
        _declare_bounds(parts, scale_set)


def _machine_profile(parts: AzurePoolParts) -> dict[str, Any]:
    plan = parts.plan
    public_address = {"name": "public", "sku": {"name": "Standard"}}
    configuration = {
        "name": "primary",
        "primary": True,
        "subnet": {"id": parts.network.subnet.id},
        "public_ip_address_configuration": public_address,
    }
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
        "storage_profile": parts.storage_profile(),
        "network_profile": {"network_interface_configurations": [card]},
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

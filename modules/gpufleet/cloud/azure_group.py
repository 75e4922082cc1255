"""Nodes in an Azure scale set: an elastic pool, or nodes that InfiniBand joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulumi_azure_native import compute, monitor

from gpufleet.cloud.plan import SSH_USER

if TYPE_CHECKING:
    from gpufleet.cloud.azure_pool import AzurePool

LONGEST_PREFIX = 53  # Azure adds digits to make a computer name of at most 64 letters


def scale_set(pool: AzurePool) -> None:
    """Declare the scale set and, for an elastic pool, its bounds.

    InfiniBand reaches only machines of one Uniform set in one placement group; it can't be spread over zones.
    """
    plan, count = pool.plan, pool.plan.pool.count
    joined = plan.fabric == "infiniband"
    members = compute.VirtualMachineScaleSet(
        plan.pool.name,
        vm_scale_set_name=plan.prefix,
        orchestration_mode="Uniform",
        sku={"name": plan.pool.machine, "tier": "Standard", "capacity": count.desired},
        single_placement_group=joined,
        platform_fault_domain_count=1,
        overprovision=False,  # more machines than asked for, even briefly, would cost and exceed a reservation
        upgrade_policy={"mode": "Manual"},  # a new model is for new machines, it replaces no running one
        virtual_machine_profile=_profile(pool),
        zones=pool.zones,
        tags=plan.tags(),
        **pool.place,
        opts=pool.child(
            depends_on=[pool.reservation] if pool.reservation else None,
            ignore_changes=["sku.capacity"] if count.elastic else None,
        ),
    )
    if count.elastic:
        _bounds(pool, members)


def _profile(pool: AzurePool) -> dict[str, Any]:
    plan = pool.plan
    address = {"name": "public", "sku": {"name": "Standard"}}
    configuration = {
        "name": "primary",
        "primary": True,
        "subnet": {"id": pool.network.subnet.id},
        "public_ip_address_configuration": address,
    }
    card = {
        "name": "primary",
        "primary": True,
        "enable_accelerated_networking": True,
        "ip_configurations": [configuration],
    }
    return {
        "os_profile": {
            "computer_name_prefix": f"{plan.prefix[:LONGEST_PREFIX]}-",
            "admin_username": SSH_USER,
            "linux_configuration": pool.linux(),
            **pool.first_boot(),
        },
        "storage_profile": pool.storage(),
        "network_profile": {"network_interface_configurations": [card]},
        **pool.terms(),
    }


def _bounds(pool: AzurePool, members: Any) -> None:
    """Declare the least and most machines; without a rule, whoever scales the set decides between them."""
    plan, count = pool.plan, pool.plan.pool.count
    capacity = {"minimum": str(count.min), "maximum": str(count.max), "default": str(count.desired)}
    monitor.AutoscaleSetting(
        plan.pool.name,
        autoscale_setting_name=plan.prefix,
        enabled=True,
        profiles=[{"name": "bounds", "capacity": capacity, "rules": []}],
        target_resource_uri=members.id,
        tags=plan.tags(),
        **pool.place,
        opts=pool.child(),
    )

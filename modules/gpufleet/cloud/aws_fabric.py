"""Network interfaces of AWS nodes, as launch templates take them. Pure."""

from __future__ import annotations

from typing import Any

from gpufleet.cloud.pool_plan import PoolPlan

# A public address is the cheapest way out to packages and images; the security group still blocks all other access.
_PUBLIC_ADDRESS = {"associate_public_ip_address": "true"}


def has_several_interfaces(plan: PoolPlan) -> bool:
    """Return whether a node has more than one interface: AWS then gives it no public address of its own."""
    return plan.fabric_plan is not None and len(plan.fabric_plan.interfaces) > 1


def build_template_interfaces(
    plan: PoolPlan, security_group: Any, *, is_private: bool, subnet_id: Any = None
) -> list[dict[str, Any]]:
    """Return the interfaces of a node; without a subnet, an Auto Scaling group chooses it."""
    common: dict[str, Any] = {"security_groups": [security_group], "delete_on_termination": "true"}
    common |= {} if subnet_id is None else {"subnet_id": subnet_id}
    common |= {} if is_private else _PUBLIC_ADDRESS
    if plan.fabric_plan is None:
        return [{"device_index": 0, **common}]
    return [
        {
            "network_card_index": interface.card,
            "device_index": interface.device,
            "interface_type": interface.kind,
            **common,
        }
        for interface in plan.fabric_plan.interfaces
    ]

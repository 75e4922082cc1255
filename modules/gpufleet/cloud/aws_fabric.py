"""Network cards of EFA machines. Pure."""

from __future__ import annotations

from typing import Any

from gpufleet.catalog import Machine


def build_efa_interfaces(machine: Machine, subnet_id: Any, security_groups: Any) -> list[dict[str, Any]]:
    """Return one EFA interface per network card: fewer would work too, at a fraction of the speed.

    Card 0 has device index 0 and carries IP traffic as well; every other card has device index 1. No
    interface requests a public address: AWS refuses that on machines with several.
    """
    subnet = {} if subnet_id is None else {"subnet_id": subnet_id}  # None: a group chooses the subnet
    return [
        {
            "network_card_index": card,
            "device_index": 0 if card == 0 else 1,
            "interface_type": "efa",
            "security_groups": security_groups,
            "delete_on_termination": "true",
            **subnet,
        }
        for card in range(machine.fabric_interfaces)
    ]

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep a firewall of our own by nftables that can't lock out the login that applies it."""

from __future__ import annotations

DOCUMENTATION = """
module: firewall
short_description: Set up an nftables firewall; without confirmation by a new connection it is rolled back
description:
  - Manages one table, C(inet gpufleet), with a chain for incoming packets; a packet that no rule accepts is dropped.
    Forwarded packets and other tables, such as those of podman and Docker, are not changed.
  - Accepts established connections, loopback, ICMP, and SSH from the address of the current run.
  - nft checks the rules before they are loaded. The host then waits for a confirmation over a second, new connection,
    and restores the old rules if none arrives in time. Only confirmed rules survive a restart.
  - If the kernel rejects rules, I(not_applied) reports it.
options:
  state: {description: Whether the table exists., type: str, choices: [present, absent], default: present}
  ssh_from: {description: Addresses and networks that may connect by SSH., type: list, elements: str, default: []}
  peers: {description: Addresses and networks that may connect to every port., type: list, elements: str, default: []}
  open:
    description: Further ports to open.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Purpose; a comment of the rule., type: str, required: true}
      ports: {description: Ports and ranges., type: list, elements: str, required: true}
      protocol: {description: Protocol., type: str, choices: [tcp, udp], default: tcp}
      sources: {description: "Addresses and networks; empty: every address.", type: list, elements: str, default: []}
  container_interfaces:
    description: Interfaces of containers that may use this host's resolver.
    type: list
    elements: str
    default: []
  chains: {description: Whole chains in nft's syntax., type: list, elements: str, default: []}
  confirm_seconds: {description: Seconds that a new connection may take to get in., type: int, default: 45}
  confirm: {description: Digest of the rules to confirm; only the action plugin sets it., type: str, default: ""}
  applied_from: {description: SSH connection that applied them; only the action plugin sets it., type: str, default: ""}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Let in SSH from the office and the serving port from everywhere
  gpufleet.fleet.firewall:
    ssh_from: [192.0.2.0/24]
    open:
      - {name: inference, ports: ["8000"]}
"""

RETURN = """
not_applied: {description: Why this host cannot have a firewall., returned: always, type: dict}
"""

from typing import Any  # noqa: E402 - Ansible wants its documentation above the imports

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import nft, nft_host  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

TEXTS = {"type": "list", "elements": "str", "default": []}
OPEN = {
    "name": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "str", "required": True},
    "protocol": {"type": "str", "choices": ["tcp", "udp"], "default": "tcp"},
    "sources": TEXTS,
}
SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "ssh_from": TEXTS,
    "peers": TEXTS,
    "open": {"type": "list", "elements": "dict", "default": [], "options": OPEN},
    "container_interfaces": TEXTS,
    "chains": TEXTS,
    "confirm_seconds": {"type": "int", "default": 45},
    "confirm": {"type": "str", "default": ""},
    "applied_from": {"type": "str", "default": ""},
}


def apply_confirm_or_remove_rules(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Apply, confirm or remove the rules, as the options request; return Ansible's result."""
    if params["confirm"]:
        return nft_host.confirm_firewall_rules(params["confirm"], params["applied_from"])
    if params["state"] == "absent":
        return nft_host.remove_firewall_rules(check_mode)
    options: nft.FirewallOptions = {
        "ssh_from": params["ssh_from"],
        "peers": params["peers"],
        "open": params["open"],
        "container_interfaces": params["container_interfaces"],
        "chains": params["chains"],
    }
    text = nft.render_nft_rules(options, nft_host.find_operator_address())
    return nft_host.apply_firewall_rules(text, params["confirm_seconds"], check_mode)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(
            **{
                "changed": False,
                "not_applied": {},
                **apply_confirm_or_remove_rules(module.params, module.check_mode),
            }
        )
    except HostError as error:
        module.fail_json(msg=error.msg, **error.result)


if __name__ == "__main__":
    main()

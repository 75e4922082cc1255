# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep a firewall of our own by nftables that can't lock out the login that applies it."""

from __future__ import annotations

DOCUMENTATION = """
module: firewall
short_description: Keep a firewall by nftables, confirmed by a new connection or taken back
description:
  - Keeps one table, C(inet gpufleet), with a chain for what comes in; what is not let in is dropped. Other tables,
    those of podman and Docker among them, and forwarded packets are left alone.
  - Lets in connections that exist, loopback, ICMP, and SSH from the address that this very run comes from.
  - nft reads the rules before they are in force. Once they are, the host itself waits for a word over a second, new
    connection, and puts the old rules back if none comes in time. Only confirmed rules outlast a restart.
  - If the kernel refuses rules, I(not_applied) reports it.
options:
  state: {description: Whether there is a firewall of ours., type: str, choices: [present, absent], default: present}
  ssh_from: {description: Addresses and networks from which SSH is let in., type: list, elements: str, default: []}
  peers: {description: Addresses and networks from which everything is let in., type: list, elements: str, default: []}
  open:
    description: What else is let in.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: What it is for., type: str, required: true}
      ports: {description: Ports and ranges., type: list, elements: str, required: true}
      protocol: {description: Protocol., type: str, choices: [tcp, udp], default: tcp}
      sources: {description: "From where; empty is everywhere.", type: list, elements: str, default: []}
  container_interfaces:
    description: Interfaces of containers that may ask this host's resolver.
    type: list
    elements: str
    default: []
  chains: {description: Whole chains in nft's syntax., type: list, elements: str, default: []}
  confirm_seconds: {description: How long a new connection may take to get in., type: int, default: 45}
  confirm: {description: Given by the action plugin alone., type: str, default: ""}
  seen: {description: Given by the action plugin alone., type: str, default: ""}
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
not_applied: {description: Why there can be no firewall here., returned: always, type: dict}
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
    "seen": {"type": "str", "default": ""},
}


def run_firewall_action(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what this call is for and return Ansible's result."""
    if params["confirm"]:
        return nft_host.confirm(params["confirm"], params["seen"])
    if params["state"] == "absent":
        return nft_host.remove(check_mode)
    options: nft.FirewallOptions = {
        "ssh_from": params["ssh_from"],
        "peers": params["peers"],
        "open": params["open"],
        "container_interfaces": params["container_interfaces"],
        "chains": params["chains"],
    }
    text = nft.render_rules(options, nft_host.operator_address())
    return nft_host.apply(text, params["confirm_seconds"], check_mode)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(
            **{"changed": False, "not_applied": {}, **run_firewall_action(module.params, module.check_mode)}
        )
    except HostError as trouble:
        module.fail_json(msg=trouble.msg, **trouble.more)


if __name__ == "__main__":
    main()

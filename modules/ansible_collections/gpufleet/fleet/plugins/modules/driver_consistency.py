# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_consistency
short_description: Compare the drivers of hosts with each other
description:
  - Says for each host what does not agree, in itself and with the hosts of its group.
options:
  hosts:
    description: By host, C(group), C(cards) (whether it has any) and C(state) of M(gpufleet.fleet.driver_state).
    type: dict
    required: true
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Compare
  gpufleet.fleet.driver_consistency:
    hosts: {node01: {group: llm-server, cards: true, state: "{{ read.state }}"}}
"""

RETURN = """
agree: {description: Whether nothing is skewed., returned: always, type: bool}
findings: {description: "What does not agree: host, code, kind, message, remedy.", returned: always, type: list,
           elements: dict}
table: {description: The same in lines., returned: always, type: list, elements: str}
"""

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_consistency
short_description: Compare the drivers of hosts
description:
  - Reports, for each host, what differs between its own parts and from the hosts of its group.
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
agree: {description: Whether no host has a skew., returned: always, type: bool}
skews: {description: "By host that has any, the messages of its skews.", returned: always, type: dict}
findings: {description: "Every difference: host, code, kind, message, remedy.", returned: always, type: list,
           elements: dict}
table: {description: The findings as lines of a table., returned: always, type: list, elements: str}
"""

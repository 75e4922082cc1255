# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: network_mesh
short_description: Plan and compare measurements between all pairs of hosts
description:
  - Returns rounds in which each host has one partner and meets every other one once.
  - With I(measured), also returns what each host's pairs show, and which hosts stand out by median and MAD.
options:
  hosts: {description: Addresses by host., type: dict, required: true}
  measured:
    description: >-
      Sessions as C({node, partner, rc, stdout, stderr}); C(stdout) is what the agent's C(pair-measure) printed.
    type: list
    elements: dict
    default: []
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Plan
  gpufleet.fleet.network_mesh:
    hosts: {node01: 192.0.2.11, node02: 192.0.2.12}
"""

RETURN = """
addresses: {description: The hosts' addresses., returned: always, type: dict}
rounds:
  description: "Rounds; each has, by host, its C(partner) and whether it C(drives) the session."
  returned: always
  type: list
  elements: dict
nodes: {description: "By host, its outcome, medians and reasons.", returned: always, type: dict}
table: {description: The hosts as lines of a table., returned: always, type: list, elements: str}
"""

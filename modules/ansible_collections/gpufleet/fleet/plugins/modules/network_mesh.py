# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: network_mesh
short_description: Plan and compare measurements of the network between hosts
description:
  - Returns the rounds of the next step, in which each host has one partner. A step without rounds is the end.
  - At the end, also returns what each host's sessions show, and which hosts, pairs and links are bad.
options:
  hosts: {description: Addresses by host., type: dict, required: true}
  domains:
    description: The domain of each host, such as its rack. Hosts of a domain are measured together first.
    type: dict
    default: {}
  mode:
    description: All pairs, or groups and what is suspect in them; C(auto) chooses by I(pairs_up_to).
    type: str
    choices: [auto, pairs, groups]
    default: auto
  pairs_up_to: {description: Most hosts of which C(auto) measures all pairs., type: int, default: 24}
  between_at_once: {description: Most rings between groups that run at the same time., type: int, default: 4}
  launched:
    description: What the last step returned as C(launched).
    type: list
    elements: dict
    default: []
  state_file:
    description: >-
      File on the controller from which an interrupted run of the same hosts goes on. It is removed at the end.
    type: str
    default: ''
  earlier: {description: What the last step returned as C(earlier)., type: list, elements: dict, default: []}
  measured:
    description: >-
      Sessions so far as C({test, node, partner, rc, stdout, stderr}); C(stdout) is what the agent's C(pair-measure)
      printed.
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
mode: {description: "C(pairs) or C(groups).", returned: always, type: str}
rounds:
  description: "Rounds; each has, by host, its C(partner), its C(test) and whether it C(drives) the session."
  returned: always
  type: list
  elements: dict
launched: {description: The tests of this and all earlier steps., returned: always, type: list, elements: dict}
earlier: {description: Sessions of an interrupted run., returned: always, type: list, elements: dict}
nodes: {description: "By host, its outcome, medians and reasons.", returned: at the end, type: dict}
summaries: {description: "By host, one line.", returned: at the end, type: dict}
lines: {description: What the run found., returned: at the end, type: list, elements: str}
"""

# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: wipe_plan
short_description: Say which of a node's drives would be wiped how, and which would not and why
description:
  - Makes a plan of what C(gpufleet.fleet.disks) has read, by C(gpufleet.nodes.wipe_plan). Drives that are not the
    node's own, and those that the running system uses, are refused.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  seen: {description: What C(gpufleet.fleet.disks) returned as I(seen)., type: dict, required: true}
  method: {description: "One of the table's methods by name; C(auto) is the surest that a drive can do.", type: str,
           default: auto}
  jobs: {description: What runs on the node., type: list, elements: str, default: []}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Plan
  gpufleet.fleet.wipe_plan:
    node: "{{ inventory_hostname }}"
    seen: "{{ wipe_seen.seen }}"
  register: wipe_planned
"""

RETURN = """
plan: {description: Its id; drives with method and commands; refused drives with reasons., returned: always, type: dict}
gpufleet: {description: The plan, as the event that the registry records., returned: always, type: dict}
"""

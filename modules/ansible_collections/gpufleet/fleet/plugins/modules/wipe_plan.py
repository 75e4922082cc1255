# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: wipe_plan
short_description: Plan the wipe of a node's drives
description:
  - Plans, from the result of C(gpufleet.fleet.disks), the method for each drive, or the reason why it is not
    wiped. Drives that are not local, and those that the running system uses, are never wiped.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  drive_facts: {description: What C(gpufleet.fleet.disks) returned as I(drive_facts)., type: dict, required: true}
  method: {description: Name of a method; C(auto) is the most thorough one that a drive supports., type: str,
           default: auto}
  jobs: {description: "Running jobs, as C(gpufleet.fleet.disks) returned them.", type: list, elements: str, default: []}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Plan
  gpufleet.fleet.wipe_plan:
    node: "{{ inventory_hostname }}"
    drive_facts: "{{ wipe_drives.drive_facts }}"
  register: wipe_planned
"""

RETURN = """
plan: {description: Its id; drives with method and commands; refused drives with reasons., returned: always, type: dict}
gpufleet: {description: "The plan, as the event that the registry records.", returned: always, type: dict}
"""

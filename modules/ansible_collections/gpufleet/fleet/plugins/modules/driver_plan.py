# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_plan
short_description: Plan a host's GPU driver from its facts
description:
  - Makes a plan from the facts of C(gpufleet.fleet.hardware) and the software that the node's template requests, and
    returns it. The roles read the plan from the variable C(driver_plan), which a play sets from the result. Runs on the
    controller, in C(gpufleet.drivers); changes nothing. Cards of the site's own table, C(gpu-cards.yaml) next to
    C(Pulumi.yaml), count too.
  - If there is no driver for the host, the task fails with the reason and a remedy, unless I(plan_only) is set.
options:
  hardware: {description: The facts., type: dict, required: true}
  requested_software:
    description: >-
      Software that the template requests: C(gpufleet_software) of the inventory. If it is empty, the cards decide.
    type: raw
    default: {}
  plan_only: {description: Return a refusal as a plan instead of a failure., type: bool, default: false}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Plan the driver
  gpufleet.fleet.driver_plan:
    hardware: "{{ driver_hardware.hardware }}"
    requested_software: "{{ gpufleet_software | default({}) }}"
  register: driver_planned

# Not a fact: a node can report any fact.
- name: Offer the plan to the roles
  ansible.builtin.set_fact:
    driver_plan: "{{ driver_planned.plan }}"
"""

RETURN = """
plan: {description: The plan; see docs/drivers.md., returned: unless the input is wrong, type: dict}
"""

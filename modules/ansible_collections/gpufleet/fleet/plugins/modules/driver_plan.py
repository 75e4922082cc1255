# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_plan
short_description: Plan a host's GPU driver from its facts
description:
  - Turns what C(gpufleet.fleet.hardware) read and what the node's template wants into a plan, with the variable
    C(driver_plan) holding it from then on. Runs on the controller, in C(gpufleet.drivers); changes nothing.
  - A host that is refused fails with one line and its remedy, unless I(plan_only) is set.
options:
  hardware: {description: The facts., type: dict, required: true}
  wanted:
    description: >-
      What the template asks for, a mapping: C(gpufleet_software) of the inventory. Empty plans what suits the cards.
    type: raw
    default: {}
  plan_only: {description: Give a refusal as a plan instead of failing., type: bool, default: false}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Plan the driver
  gpufleet.fleet.driver_plan:
    hardware: "{{ driver_hardware.hardware }}"
    wanted: "{{ gpufleet_software | default({}) }}"
"""

RETURN = """
plan: {description: The plan; see docs/drivers.md., returned: unless the input is wrong, type: dict}
ansible_facts: {description: The plan as C(driver_plan)., returned: unless the input is wrong, type: dict}
"""

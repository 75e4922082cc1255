# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: report
short_description: Report an event of a host to the gpufleet registry
description:
  - Returns its arguments under C(gpufleet); the callback C(gpufleet.fleet.registry) writes them into the registry,
    and C(gpufleet nodes ingest) does so from the run's artifacts.
options:
  node: {description: The host's name in the inventory., type: str, required: true}
  event:
    description:
      - What happened to the host. The registry does not store C(planned), which a run in check mode reports.
    type: str
    required: true
    choices:
      - commissioned
      - configured
      - configure_failed
      - drivers_failed
      - kernel_upgraded
      - kernel_upgrade_failed
      - network_mesh
      - planned
  part:
    description:
      - Which part of the configuration succeeded or failed. A node counts as configured if none failed. In a run
        that commissions, the base part clears the results of earlier runs.
    type: str
    default: base
    choices:
      - base
      - kernel
      - roles_before
      - drivers
      - gpudirect
      - gpu_settings
      - containers
      - fabric
      - nfs
      - application
      - roles_after
      - spot_notice
      - monitoring
  attempt: {description: Id of the commissioning attempt., type: str, default: ""}
  facts:
    description:
      - Facts to record with the event. C(gpufleet configure) prints the text C(summary) on the host's row.
    type: dict
    default: {}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Report to the registry that the node is configured
  gpufleet.fleet.report:
    node: "{{ inventory_hostname }}"
    event: configured
"""

RETURN = """
gpufleet: {description: The event for the registry., returned: always, type: dict}
"""

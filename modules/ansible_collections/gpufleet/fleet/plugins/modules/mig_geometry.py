# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: mig_geometry
short_description: Check a declared MIG geometry against NVIDIA's tables
description:
  - Returns the MIG instances of each GPU, or fails with the reason why the geometry is not possible.
options:
  geometry:
    description: Declared geometry; see the role nvidia_mig.
    type: raw
    required: true
  devices:
    description: The PCI device ids of the host's GPUs, in the driver's order.
    type: list
    elements: str
    required: true
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Check the geometry against NVIDIA's tables
  gpufleet.fleet.mig_geometry:
    geometry: {3g.40gb: 2}
    devices: ["2330"]
"""

RETURN = """
plan: {description: MIG instances of each GPU., returned: success, type: list, elements: dict}
config: {description: The same as a configuration of mig-parted., returned: success, type: dict}
"""

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: arguments
short_description: Validate the variables of several roles at once, and refuse misspelt ones
description:
  - Checks the variables of several roles against their argument specifications in one task; Ansible itself needs one
    task a role. Import the roles with C(rolespec_validate=false).
  - Fails for a variable that nothing reads and that resembles a setting of a role or of gpufleet
    (C(hardening_firewal)), because Ansible would ignore it. C(gpufleet_other_variables) lists names that other roles
    read.
options:
  roles: {description: Names of roles of this project., type: list, elements: str, required: true}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Check the settings of all base roles
  gpufleet.fleet.arguments:
    roles: [common, hardening]
"""

RETURN = """
"""

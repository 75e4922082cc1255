# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: verdict
short_description: Judge the records of a burn-in
description:
  - Returns the verdict that the registry will record, for a play that depends on it.
options:
  records: {description: The agent's records., type: list, elements: dict, required: true}
  kind: {description: The node's kind, type: str, required: true}
  profile: {description: The profile that ran., type: str, default: quick}
  rehearsal: {description: Whether the node is part of a rehearsal., type: bool, default: false}
extends_documentation_fragment: [gpufleet.fleet.common.controller]
"""

EXAMPLES = """
- name: Judge
  gpufleet.fleet.verdict:
    records: "{{ measured.gpufleet.records }}"
    kind: compute_blade
"""

RETURN = """
verdict: {description: "One of C(healthy), C(degraded), C(faulty), C(incomplete).", returned: always, type: str}
reasons: {description: Why the verdict is not better., returned: always, type: list, elements: str}
"""

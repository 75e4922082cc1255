# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The documentation of the action plugin of this name; Ansible looks for it here."""

from __future__ import annotations

DOCUMENTATION = """
module: power
short_description: Read or switch a node's power through its BMC
description:
  - Contacts the node's BMC by Redfish or IPMI from the controller. Nothing runs on the node.
  - C(off) and C(cycle) request a shutdown of the operating system first. If the node is still on after
    I(shutdown_seconds), I(force) permits to cut its power.
  - If the BMC belongs to another machine than I(serial) and I(identifiers) say, nothing is switched. If they have no
    identifier in common, it is only switched on.
  - Needs C(gpufleet[bmc]) on the controller. In check mode the state is only read.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  bmc:
    description: >-
      C(protocol) (C(redfish) or C(ipmi)), C(address), and optionally C(port), C(system), C(ca_file) and
      C(certificate_sha256).
    type: dict
    required: true
  user: {description: User of the BMC., type: str, default: ""}
  password: {description: Password of the BMC; neither shown nor recorded., type: str, default: ""}
  state: {description: What to do., type: str, choices: ["read", "on", "off", cycle], default: read}
  serial: {description: "The node's serial; empty if it is unknown.", type: str, default: ""}
  identifiers:
    description: >-
      What else the node is known by: C(board_serial), C(chassis_serial), C(uuid), and C(serial). They count only if
      their serial is I(serial).
    type: dict
    default: {}
  force: {description: Whether to cut the power of a node that does not shut down., type: bool, default: false}
  shutdown_seconds: {description: Time for the shutdown of the operating system., type: int, default: 300}
  contact_seconds: {description: Time for the exchange with the BMC., type: int, default: 60}
  required: {description: "Whether a BMC that refuses fails the task. If not, it is a warning.", type: bool,
             default: true}
author: gpufleet contributors (@gpufleet)
attributes:
  check_mode: {description: Whether the module can run in check mode., support: full}
"""

EXAMPLES = """
- name: Power the node on
  gpufleet.fleet.power:
    node: "{{ inventory_hostname }}"
    bmc: {protocol: redfish, address: 10.20.8.11, ca_file: /etc/gpufleet/bmc-ca.pem}
    user: "{{ vault_bmc_user }}"
    password: "{{ vault_bmc_password }}"
    state: "on"
"""

RETURN = """
power: {description: "C(state), C(was) and C(problem), which is empty if the BMC did what was requested.",
        returned: always, type: dict}
gpufleet: {description: "State, model, serial: the event that the registry records.", returned: always, type: dict}
"""

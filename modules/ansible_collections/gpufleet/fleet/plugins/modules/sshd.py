# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep sshd's settings and algorithms in a drop-in that can't lock out the login that applies it."""

from __future__ import annotations

DOCUMENTATION = """
module: sshd
short_description: Set sshd's settings and algorithms; without confirmation by a new connection they are rolled back
description:
  - Manages one file, C(/etc/ssh/sshd_config.d/00-gpufleet.conf). It is the first of its folder, because sshd keeps the
    first value that it reads.
  - Writes only algorithms that this host's sshd supports; fails if it supports none of a list.
  - sshd judges the new file among the host's own files before it is written. The host then waits for a confirmation
    over a second, new connection, and restores the old file if none arrives in time. If the host starts again before
    that, it also restores the old file.
options:
  settings: {description: Settings of sshd_config., type: dict, default: {}}
  algorithms:
    description: Keyword of sshd_config, such as C(Ciphers), to a list of algorithms, best first.
    type: dict
    default: {}
  login: {description: User whom sshd must continue to accept with a key., type: str, required: true}
  check: {description: Text of a shell script that judges a candidate for a login., type: str, required: true}
  unit: {description: Unit of sshd., type: str, required: true}
  confirm_seconds: {description: Seconds that a new connection may take., type: int, default: 45}
  confirm: {description: Digest of the file to confirm; only the action plugin sets it., type: str, default: ""}
  applied_from: {description: SSH connection that applied it; only the action plugin sets it., type: str, default: ""}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Allow two ciphers
  gpufleet.fleet.sshd:
    settings: {PasswordAuthentication: "no"}
    algorithms:
      Ciphers: [chacha20-poly1305@openssh.com, aes256-gcm@openssh.com]
    login: root
    unit: ssh.service
    check: "{{ lookup('ansible.builtin.file', 'sshd_admits.sh') }}"
"""

RETURN = """
not_applied:
  description: C(sshd), each keyword that another file sets first.
  returned: if not in check mode
  type: dict
unsupported: {description: Algorithms that this sshd does not know., returned: success, type: dict}
"""

from typing import Any  # noqa: E402 - Ansible wants its documentation above the imports

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import sshd_host  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

SPEC = {
    "settings": {"type": "dict", "default": {}},
    "algorithms": {"type": "dict", "default": {}},
    "login": {"type": "str", "required": True},
    "check": {"type": "str", "required": True},
    "unit": {"type": "str", "required": True},
    "confirm_seconds": {"type": "int", "default": 45},
    "confirm": {"type": "str", "default": ""},
    "applied_from": {"type": "str", "default": ""},
}


def apply_or_confirm_settings(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Apply or confirm the settings, as the options request; return Ansible's result."""
    if params["confirm"]:
        return sshd_host.confirm_sshd_settings(params["confirm"], params["applied_from"])
    options: sshd_host.SshdOptions = {
        "settings": params["settings"],
        "algorithms": params["algorithms"],
        "login": params["login"],
        "check": params["check"],
        "unit": params["unit"],
        "confirm_seconds": params["confirm_seconds"],
    }
    return sshd_host.apply_sshd_settings(options, check_mode)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    # Ansible would send all arguments back with the result, the script among them.
    base_result: dict[str, Any] = {"changed": False, "invocation": {"module_args": {}}}
    try:
        module.exit_json(**{**base_result, **apply_or_confirm_settings(module.params, module.check_mode)})
    except HostError as error:
        module.fail_json(msg=error.msg, **{**base_result, **error.result})


if __name__ == "__main__":
    main()

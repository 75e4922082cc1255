# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the kernel can audit, and the rules of /etc/audit/rules.d loaded into it."""

from __future__ import annotations

DOCUMENTATION = """
module: audit
short_description: Report whether the kernel can audit, and load the rules of /etc/audit/rules.d
description:
  - Asks the kernel over netlink, as C(auditctl -s) does; auditd need not be installed.
  - With I(load), it runs C(augenrules --load) if the rules differ from those that were loaded last, or if the kernel
    has none. It fails with the rule that the kernel or auditctl refuses.
  - A host whose kernel does not audit, such as a container, is reported under I(not_applied).
options:
  load: {description: Whether to load the rules., type: bool, default: false}
  changed_paths:
    description: Files that the task before changed. With C(/etc/audit/auditd.conf) among them, auditd reads it again.
    type: list
    elements: str
    default: []
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Load the audit rules
  gpufleet.fleet.audit:
    load: true
"""

RETURN = """
is_available: {description: Whether the kernel can audit here., returned: always, type: bool}
not_applied: {description: "C(auditd) or C(audit_rules) and the reason.", returned: always, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402 - Ansible wants its documentation above the imports

from ansible_collections.gpufleet.fleet.plugins.module_utils import audit_kernel  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "load": {"type": "bool", "default": False},
            "changed_paths": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    state = audit_kernel.read_audit_state()
    result = {"changed": False, "is_available": not state.refusal, "not_applied": {}}
    if state.refusal:
        module.exit_json(**{**result, "not_applied": {"auditd": state.refusal}})
    try:
        if module.params["load"]:
            result.update(audit_kernel.load_audit_rules(state.is_locked, module.check_mode))
            audit_kernel.reload_auditd(module.params["changed_paths"], module.check_mode)
    except HostError as error:
        module.fail_json(msg=error.msg, **{**result, **error.result})
    module.exit_json(**result)


if __name__ == "__main__":
    main()

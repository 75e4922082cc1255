# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep kernel settings in one file, apply those the kernel allows, and say which it does not."""

from __future__ import annotations

DOCUMENTATION = """
module: sysctl
short_description: Set kernel settings now and at every boot; report those that cannot be set
description:
  - Writes all settings to one file in C(/etc/sysctl.d), which applies at every boot, then sets each that
    differs in the running kernel. A container cannot set most of them, and an older kernel does not have all;
    C(not_applied) lists each with the reason and does not fail the task.
options:
  path: {description: The file., type: path, required: true}
  settings: {description: Setting to value., type: dict, required: true}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Harden the kernel
  gpufleet.fleet.sysctl:
    path: /etc/sysctl.d/60-gpufleet.conf
    settings: {kernel.kptr_restrict: 2}
"""

RETURN = """
applied: {description: Settings set in the running kernel by this call., returned: always, type: list}
not_applied: {description: Setting to reason., returned: always, type: dict}
"""

from pathlib import Path  # noqa: E402 - Ansible wants its documentation above the imports

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import sysctl as work  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

SPEC = {"path": {"type": "path", "required": True}, "settings": {"type": "dict", "required": True}}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        result = work.apply_kernel_settings(
            Path(module.params["path"]), module.params["settings"], module.check_mode
        )
    except HostError as error:
        module.fail_json(msg=error.msg)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

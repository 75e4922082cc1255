# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep kernel settings in one file, apply those the kernel allows, and say which it does not."""

from __future__ import annotations

DOCUMENTATION = """
module: sysctl
short_description: Keep kernel settings in one file and apply them, honest about those that cannot be
description:
  - Writes all settings to one file in C(/etc/sysctl.d), so that they hold from the next start on, then sets each
    that differs in the running kernel. In a container most can't be set, and on an older kernel some don't exist;
    C(not_applied) names each with the reason, and is not an error.
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
        result = work.apply(Path(module.params["path"]), module.params["settings"], module.check_mode)
    except HostError as trouble:
        module.fail_json(msg=trouble.msg)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

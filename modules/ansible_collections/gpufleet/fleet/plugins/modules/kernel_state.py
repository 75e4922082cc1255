# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read which kernels a host has, and whether each has its headers and driver modules."""

from __future__ import annotations

DOCUMENTATION = """
module: kernel_state
short_description: Read the kernels of a host, their headers and driver modules, and the boot loader
description:
  - Returns the running kernel and every kernel that can boot, each with its headers, the state of its dkms modules and
    the version, vermagic and signer of its driver modules as C(modinfo) reads them.
  - Also returns the installed kernel packages and what the last upgrade recorded in I(record_path). Changes nothing.
options:
  record_path: {description: File of the role os_upgrade., type: path, default: /var/lib/gpufleet/kernels.json}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Read the kernels
  gpufleet.fleet.kernel_state:
  register: kernels
"""

RETURN = """
state: {description: "Kernels, packages and boot loader of the host.", returned: always, type: dict}
record: {description: What the last upgrade recorded; empty if there was none., returned: always, type: dict}
"""

import json  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.kernels import read_kernel_state  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={"record_path": {"type": "path", "default": "/var/lib/gpufleet/kernels.json"}},
        supports_check_mode=True,
    )
    try:
        stored = json.loads(Path(module.params["record_path"]).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = {}
    try:
        state = read_kernel_state()
    except HostError as error:
        module.fail_json(msg=error.msg)
    module.exit_json(changed=False, state=state, record=stored if isinstance(stored, dict) else {})


if __name__ == "__main__":
    main()

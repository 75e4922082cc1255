# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Choose which kernel GRUB boots by default, and which one only at the next boot."""

from __future__ import annotations

DOCUMENTATION = """
module: boot_kernel
short_description: Set the kernel that GRUB boots, permanently or only once
description:
  - With I(default), GRUB boots this kernel until I(state=free). A kernel that is installed later does not change that.
    On Debian and Ubuntu this is a file in C(/etc/default/grub.d) with C(GRUB_DEFAULT=saved), on RHEL C(grubby).
  - With I(once), the next boot takes this kernel, and every later boot the default one. It boots with
    C(panic=SECONDS). A kernel that panics therefore restarts the host with the default kernel.
  - With I(state=free), the boot loader's own rule applies again (the newest kernel).
  - Never restarts the host.
options:
  default: {description: Release of the kernel to boot by default., type: str, default: ""}
  once: {description: Release of the kernel to boot next time only., type: str, default: ""}
  state:
    description: C(pinned) boots I(default); C(free) removes what this module has set.
    type: str
    choices: [pinned, free]
    default: pinned
  panic_seconds: {description: Seconds until a kernel that panicked restarts the host., type: int, default: 30}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Boot the new kernel once
  gpufleet.fleet.boot_kernel:
    default: 6.1.0-50-amd64
    once: 6.1.0-56-amd64
"""

RETURN = """
entries: {description: Menu entry by release., returned: when state is pinned, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402 - Ansible wants its documentation above the imports

from ansible_collections.gpufleet.fleet.plugins.module_utils import grub  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.kernels import read_boot_loader  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "default": {"type": "str", "default": ""},
            "once": {"type": "str", "default": ""},
            "state": {"type": "str", "choices": ["pinned", "free"], "default": "pinned"},
            "panic_seconds": {"type": "int", "default": 30},
        },
        required_if=[("state", "pinned", ["default"])],
        supports_check_mode=True,
    )
    params = module.params
    try:
        boot = grub.find_grub(read_boot_loader()["name"])(
            params["panic_seconds"], check_mode=module.check_mode
        )
        if params["state"] == "free":
            module.exit_json(changed=boot.free())
        changed, entries = boot.pin(params["default"], params["once"])
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, entries=entries)


if __name__ == "__main__":
    main()

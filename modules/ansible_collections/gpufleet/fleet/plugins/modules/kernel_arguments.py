# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set arguments of the kernel in the host's boot loader, and say whether the running kernel has them."""

from __future__ import annotations

DOCUMENTATION = """
module: kernel_arguments
short_description: Set arguments of the kernel's command line
description:
  - Writes to the boot loader of the host. A Raspberry Pi has C(/boot/firmware/cmdline.txt), Red Hat's family C(grubby),
    and Debian's family GRUB with C(/etc/default/grub.d) and C(update-grub).
  - If the host has another boot loader, nothing is changed and I(not_applied) has the reason.
  - An argument that the module added, and that is no longer requested, is removed. On a Raspberry Pi and with grubby
    the module records its arguments in C(/var/lib/gpufleet/kernel_arguments.json) for this.
  - The previous cmdline.txt stays beside the new one as C(cmdline.txt.before-gpufleet). If C(update-grub) fails, the
    previous settings are restored.
  - The arguments take effect at the next start. I(inactive) lists those that the running kernel does not have.
options:
  present:
    description: Arguments to have, such as C(cgroup_enable=memory). Other values of the same name stay.
    type: list
    elements: str
    default: []
  absent:
    description: Arguments to remove. A name without a value removes all arguments of that name.
    type: list
    elements: str
    default: []
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Count memory of containers on a Raspberry Pi
  gpufleet.fleet.kernel_arguments:
    present: [cgroup_enable=memory]
"""

RETURN = """
loader: {description: "The boot loader: raspberry-pi, grubby, grub or another.", returned: always, type: str}
inactive: {description: Arguments that take effect at the next start., returned: always, type: list, elements: str}
not_applied: {description: Why nothing could be set., returned: always, type: dict}
"""

import json  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import boot, grub, kernels, tools  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HEADER, HostError  # noqa: E402

FIRMWARE = Path("/boot/firmware/cmdline.txt")
GRUB_SETTINGS = Path("/etc/default/grub.d/61-gpufleet-arguments.cfg")
# Written by earlier versions of the role hugepages_and_limits, without update-grub.
OLD_GRUB_SETTINGS = Path("/etc/default/grub.d/60-gpufleet.cfg")
RECORD = Path("/var/lib/gpufleet/kernel_arguments.json")
RUNNING = Path("/proc/cmdline")

SPEC: dict[str, Any] = {
    "present": {"type": "list", "elements": "str", "default": []},
    "absent": {"type": "list", "elements": "str", "default": []},
}


def read_record() -> list[str]:
    """Return the arguments that earlier runs added; none if the record is missing or damaged."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    return [argument for argument in record if isinstance(argument, str)] if isinstance(record, list) else []


def write_record(arguments: list[str]) -> None:
    """Record which arguments are gpufleet's; without arguments the record is removed."""
    if arguments:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        tools.replace_file_atomically(RECORD, json.dumps(arguments) + "\n", grub.ROOT_FILE)
    else:
        RECORD.unlink(missing_ok=True)


def set_firmware_arguments(present: list[str], absent: list[str], *, check_mode: bool) -> tuple[str, str]:
    """Edit cmdline.txt; return its text before and after."""
    before = FIRMWARE.read_text(encoding="utf-8", errors="surrogateescape")
    line = before.strip("\n")
    if "\n" in line or "root=" not in line:
        raise HostError(f"{FIRMWARE} is not one line with root=; nothing was changed")
    recorded = read_record()
    after = f"{boot.edit_command_line(line, present, absent, recorded)}\n"
    added = boot.list_added_arguments(line, present, recorded)
    if after.split() == before.split():
        if not check_mode and added != recorded:
            write_record(added)
        return before, before
    if "root=" not in after or len(after) > boot.MAX_COMMAND_LINE:
        raise HostError(
            f"{FIRMWARE} would lose root= or exceed {boot.MAX_COMMAND_LINE} characters; nothing was changed"
        )
    if not check_mode:
        write_record(list(dict.fromkeys([*recorded, *added])))
        tools.replace_file_with_backup(FIRMWARE, before, after)
        write_record(added)
    return before, after


def set_grub_arguments(present: list[str], absent: list[str], *, check_mode: bool) -> tuple[str, str]:
    """Write GRUB's settings and its menu; return the settings before and after. A failure restores the settings."""
    files = [path for path in (OLD_GRUB_SETTINGS, GRUB_SETTINGS) if path.is_file()]
    before = "".join(path.read_text(encoding="utf-8") for path in files)
    settings = boot.format_grub_settings(present, absent)
    after = HEADER + settings if settings else ""
    if before != after and not check_mode:
        grub.replace_grub_settings({OLD_GRUB_SETTINGS: "", GRUB_SETTINGS: after})
    return before, after


def set_grubby_arguments(present: list[str], absent: list[str], *, check_mode: bool) -> tuple[str, str]:
    """Set the arguments of all kernels through grubby; return those of all entries before and after."""
    code, out, err = tools.run_program(["grubby", "--info=ALL"], timeout=60)
    if code:
        raise HostError(f"grubby cannot read the boot entries: {tools.first_nonempty_line(err, out)}")
    entries = [line.partition("=")[2].strip('"') for line in out.splitlines() if line.startswith("args=")]
    recorded = read_record()
    edited = [boot.edit_command_line(entry, present, absent, recorded) for entry in entries]
    added = list(
        dict.fromkeys(arg for entry in entries for arg in boot.list_added_arguments(entry, present, recorded))
    )
    before, after = "\n".join(entries), "\n".join(edited)
    if [entry.split() for entry in entries] == [entry.split() for entry in edited]:
        if not check_mode and added != recorded:
            write_record(added)
        return before, after
    if not check_mode:
        removed = [*absent, *(argument for argument in recorded if argument not in present)]
        command = ["grubby", "--update-kernel=ALL"]
        command += [f"--args={' '.join(present)}"] if present else []
        command += [f"--remove-args={' '.join(removed)}"] if removed else []
        write_record(list(dict.fromkeys([*recorded, *added])))
        code, out, err = tools.run_program(command, timeout=60)
        if code:
            raise HostError(f"grubby did not set the arguments: {tools.first_nonempty_line(err, out)}")
        write_record(added)
    return before, after


LOADERS = {
    "raspberry-pi": set_firmware_arguments,
    "grubby": set_grubby_arguments,
    "grub": set_grub_arguments,
}


def set_kernel_arguments(present: list[str], absent: list[str], *, check_mode: bool) -> dict[str, Any]:
    """Set the arguments with the host's boot loader; return the result."""
    invalid = boot.find_invalid_arguments([*present, *absent])
    if invalid:
        raise HostError(f"not an argument of the kernel: {invalid[0]!r}; give NAME or NAME=VALUE")
    loader, reason = kernels.find_boot_loader()
    result: dict[str, Any] = {"changed": False, "loader": loader, "inactive": [], "not_applied": {}}
    if loader not in LOADERS:
        message = f"{reason}: set the arguments in this host's boot loader"
        return {**result, "not_applied": {"kernel_arguments": message} if present or absent else {}}
    before, after = LOADERS[loader](present, absent, check_mode=check_mode)
    running = RUNNING.read_text(encoding="utf-8", errors="replace")
    result["inactive"] = boot.list_inactive_arguments(running, present, absent)
    result["diff"] = {"before": before, "after": after}
    return {**result, "changed": before != after}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(
            **set_kernel_arguments(
                module.params["present"], module.params["absent"], check_mode=module.check_mode
            )
        )
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()

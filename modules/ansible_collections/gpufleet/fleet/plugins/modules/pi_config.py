# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep a block of settings in a Raspberry Pi's config.txt."""

from __future__ import annotations

DOCUMENTATION = """
module: pi_config
short_description: Keep a block of settings in a Raspberry Pi's config.txt
description:
  - Writes the settings as a block at the start of C(/boot/firmware/config.txt), or of C(/boot/config.txt) on a system
    that keeps its firmware there. No conditional filter of the file applies to the block. Without settings the block is
    removed.
  - Fails without a change if the host is not a Raspberry Pi, if the board does not have a setting, or if another line
    of the file has the same setting.
  - The previous file stays next to the new one as C(config.txt.before-gpufleet).
  - Settings take effect at the next start. I(reboot_needed) stays true until then.
options:
  settings:
    description: Lines of the block, such as C(usb_max_current_enable=1).
    type: list
    elements: str
    default: []
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Start the fan of the PoE HAT at 60 degrees
  gpufleet.fleet.pi_config:
    settings: [dtparam=poe_fan_temp0=60000]
"""

RETURN = """
path: {description: "The file; empty if there is none.", returned: always, type: str}
reboot_needed: {description: Whether settings take effect only at the next start., returned: always, type: bool}
"""

from pathlib import Path  # noqa: E402 - Ansible wants its documentation above the imports
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import config_txt, tools  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.board import read_board_model  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

CONFIG_FILES = (Path("/boot/firmware/config.txt"), Path("/boot/config.txt"))
WAITING = Path("/run/gpufleet/config.txt")  # memory: gone after the start that reads the file

SPEC: dict[str, Any] = {"settings": {"type": "list", "elements": "str", "default": []}}


def find_config_file() -> Path | None:
    """Return the firmware's file. /boot/config.txt can be a note that the file has moved."""
    for path in CONFIG_FILES:
        if path.is_file() and config_txt.MOVED not in path.read_text(encoding="utf-8", errors="replace"):
            return path
    return None


def check_settings(path: Path | None, text: str, settings: list[str]) -> None:
    """Raise HostError if this host cannot have the settings."""
    model = read_board_model()
    if "Raspberry Pi" not in model:
        raise HostError(
            f"this host is not a Raspberry Pi ({model or 'no device tree'}); config.txt was not written"
        )
    if path is None:
        raise HostError(f"no {' or '.join(map(str, CONFIG_FILES))}; mount the firmware's partition")
    if unsupported := config_txt.find_unsupported_settings(model, settings):
        raise HostError(f"{model} does not have {unsupported[0]}; {path} was not changed")
    if conflicts := config_txt.find_conflicts(text, settings):
        raise HostError(
            f"{path} already has the line {conflicts[0]!r} outside gpufleet's block; remove one of the two"
        )


def write_config_file(path: Path, before: str, after: str) -> None:
    """Replace the file and keep the previous one."""
    tools.replace_file_with_backup(path, before, after)
    WAITING.parent.mkdir(parents=True, exist_ok=True)
    WAITING.write_text(after, encoding="utf-8", errors="surrogateescape")


def set_config(settings: list[str], *, check_mode: bool) -> dict[str, Any]:
    """Write the block if it differs; return the result."""
    path = find_config_file()
    before = path.read_bytes().decode("utf-8", "surrogateescape") if path else ""
    if settings:
        check_settings(path, before, settings)
    result: dict[str, Any] = {"changed": False, "path": str(path or ""), "reboot_needed": WAITING.exists()}
    after = config_txt.edit_config_txt(before, settings)
    if path is None or after == before:
        return result
    if not check_mode:
        write_config_file(path, before, after)
    diff = tools.build_diff_entry(str(path), before, after)
    return {**result, "changed": True, "reboot_needed": True, "diff": diff}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(**set_config(module.params["settings"], check_mode=module.check_mode))
    except (HostError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()

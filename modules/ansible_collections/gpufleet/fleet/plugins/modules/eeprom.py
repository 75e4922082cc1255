# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Change settings of a Raspberry Pi's bootloader, where they differ and where that is safe."""

from __future__ import annotations

DOCUMENTATION = """
module: eeprom
short_description: Change settings of a Raspberry Pi's bootloader
description:
  - Compares the output of C(rpi-eeprom-config) with I(settings) and applies them if one differs. Other settings are
    not changed.
  - Settings take effect at the next boot. I(reboot_needed) stays true until then, and a second run applies nothing.
  - Raspberry Pi switches updates from the running system off on Compute Modules, because there no recovery image is
    read from SD or eMMC; its documentation says to use C(rpiboot). So they are left alone and reported under
    I(not_applied), unless I(compute_module) says otherwise.
options:
  settings: {description: "Setting to value, such as C(BOOT_ORDER: 0xf416).", type: dict, required: true}
  compute_module:
    description: >-
      Apply on Compute Modules too, through flashrom. The update is not atomic: a power failure while it is written
      leaves a module that needs C(rpiboot).
    type: bool
    default: false
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Boot from NVMe first
  gpufleet.fleet.eeprom:
    settings: {BOOT_ORDER: "0xf416"}
"""

RETURN = """
differing: {description: "Setting to [current, requested].", returned: always, type: dict}
reboot_needed: {description: Whether settings take effect only at the next boot., returned: always, type: bool}
not_applied: {description: "Settings that were not applied, each with the reason.", returned: always, type: dict}
"""

import shutil  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import pi, tools  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.board import read_board_model  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

TOOL = "rpi-eeprom-config"
APPLIED = Path("/run/gpufleet/boot.conf")  # memory: gone after the boot that applies it
# What rpi-eeprom-update asks for on a Compute Module before it writes anything.
ALLOW = {"CM4_ENABLE_RPI_EEPROM_UPDATE": "1", "RPI_EEPROM_USE_FLASHROM": "1"}

SPEC = {
    "settings": {"type": "dict", "required": True},
    "compute_module": {"type": "bool", "default": False},
}


def read_bootloader_config() -> str:
    """Return the bootloader's configuration."""
    code, out, err = tools.run_program([TOOL], timeout=60)
    if code:
        raise HostError(f"{TOOL} cannot read the bootloader: {tools.first_nonempty_line(err, out)}")
    return out


def apply_bootloader_config(config_text: str, board_model: str) -> None:
    """Apply a configuration and record it until the next boot."""
    APPLIED.parent.mkdir(parents=True, exist_ok=True)
    candidate = APPLIED.with_suffix(".new")
    candidate.write_text(config_text, encoding="utf-8")
    allow = ALLOW if "Compute Module" in board_model else {}
    code, out, err = tools.run_program([TOOL, "--apply", str(candidate)], timeout=300, **allow)
    # The tool reports a failed update in its output only, and exits with 0.
    if code or "ERROR" in out + err or "disabled" in (out + err).lower():
        raise HostError(
            f"{TOOL} did not apply the settings: {tools.first_nonempty_line(err, *out.splitlines()[-1:])}"
        )
    candidate.replace(APPLIED)


def apply_bootloader_settings(module: AnsibleModule) -> dict[str, Any]:
    """Compare the settings and apply those that differ, if the board allows it; return the result."""
    requested = {name: str(value) for name, value in module.params["settings"].items()}
    result: dict[str, Any] = {"changed": False, "differing": {}, "reboot_needed": False, "not_applied": {}}
    if not shutil.which(TOOL, path=tools.build_program_environment()["PATH"]):
        return {**result, "not_applied": {"eeprom": f"{TOOL} is not installed"}}
    text, board = read_bootloader_config(), read_board_model()
    result["differing"] = pi.find_differing_settings(pi.parse_bootloader_settings(text), requested)
    if not result["differing"]:
        return result
    waiting = APPLIED.read_text(encoding="utf-8") if APPLIED.is_file() else ""
    if not pi.find_differing_settings(pi.parse_bootloader_settings(waiting), requested):
        return {**result, "reboot_needed": True}
    if "Compute Module" in board and not module.params["compute_module"]:
        differences = ", ".join(
            f"{name} is {now}, expected {want}" for name, (now, want) in result["differing"].items()
        )
        remedy = "on a Compute Module write boot.conf with rpiboot, or set compute_module to allow the update"
        explanation = f"{differences}; {remedy}"
        return {**result, "not_applied": {"eeprom": explanation}}
    if not module.check_mode:
        apply_bootloader_config(pi.replace_bootloader_settings(text, requested), board)
    return {**result, "changed": True, "reboot_needed": True}


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
    )
    try:
        module.exit_json(**apply_bootloader_settings(module))
    except HostError as error:
        module.fail_json(msg=error.msg)


if __name__ == "__main__":
    main()

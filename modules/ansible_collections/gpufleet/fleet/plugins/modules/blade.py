# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Return which board answers here, light its LED, and read power, throttling and links."""

from __future__ import annotations

DOCUMENTATION = """
module: blade
short_description: Identify a Compute Blade, and read its power and links
description:
  - Compares the board's serial with the expected one. Another board fails the task before anything is changed.
  - With I(identify) the blade's edge LED is lit through C(bladectl) and read back. C(button) waits until a person
    presses the blade's button, and so confirms that this is the blade in front of them.
  - Reads throttling flags, temperature, the PMIC's rails if there is one, the blade's supply, the NVMe drives'
    links and where the root file system is. Each finding has a level and a reason. Nothing else is changed.
options:
  node: {description: "The node's name in the inventory; with it, the registry records the findings.", type: str,
         default: ""}
  serial: {description: "Expected serial, from the registry or the rack file.", type: str, default: ""}
  require_serial:
    description: >-
      Fail if I(serial) is empty or the board has no readable serial; for use before an action that cannot be undone.
    type: bool
    default: false
  identify:
    description: What to do with the LED.
    type: str
    choices: [none, lit, button, dark]
    default: none
  button_timeout_seconds: {description: How long C(button) waits for a press., type: int, default: 300}
  watts: {description: "The most power that the blade may need, in watts.", type: int, default: 7}
  medium:
    description: Expected boot medium; empty is not checked.
    type: str
    choices: ["", nvme, netboot, sd, emmc]
    default: ""
  link_width: {description: Fewest lanes of an NVMe drive's PCIe link., type: int, default: 1}
  link_gigatransfers: {description: "Lowest speed of that link, in GT/s per lane.", type: float, default: 5.0}
  nvme_sysfs: {description: Mount point of the sysfs that lists NVMe drives., type: path, default: /sys}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Show which blade this is
  gpufleet.fleet.blade:
    serial: "{{ gpufleet_serial | default('') }}"
    identify: lit
"""

RETURN = """
facts: {description: Measured values; one that could not be read is null., returned: always, type: dict}
reasons: {description: "Findings with code, level (fault or warning or unknown) and message.", returned: always,
          type: list, elements: dict}
identified: {description: Whether the LED answered or the button was pressed., returned: always, type: bool}
"""

import re  # noqa: E402 - Ansible wants its documentation above the imports
from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import pi  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.board import (  # noqa: E402
    read_board_model,
    read_first_readable_file,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    HostError,
    first_nonempty_line,
    run_program,
)

SERIALS = ("/proc/device-tree/serial-number", "/sys/firmware/devicetree/base/serial-number")
# bladectl's newer commands first; the agent's first releases knew only `bladectl identify`.
LIGHT = (["bladectl", "set", "identify"], ["bladectl", "identify"])
DARKEN = (["bladectl", "unset", "identify"], ["bladectl", "identify", "--confirm"])

SPEC = {
    "node": {"type": "str", "default": ""},
    "serial": {"type": "str", "default": ""},
    "require_serial": {"type": "bool", "default": False},
    "identify": {"type": "str", "choices": ["none", "lit", "button", "dark"], "default": "none"},
    "button_timeout_seconds": {"type": "int", "default": 300},
    "watts": {"type": "int", "default": 7},
    "medium": {"type": "str", "choices": ["", "nvme", "netboot", "sd", "emmc"], "default": ""},
    "link_width": {"type": "int", "default": 1},
    "link_gigatransfers": {"type": "float", "default": 5.0},
    "nvme_sysfs": {"type": "path", "default": "/sys"},
}


def read_tool_output(*argv: str) -> str:
    """Return a tool's output, or an empty string if it is missing or fails."""
    code, out, __ = run_program(list(argv), timeout=20)
    return out if code == 0 else ""


def check_board_serial(serial: str, expected_serial: str, is_required: bool) -> None:
    """Raise HostError if this is another board than the expected one."""
    if expected_serial and serial and serial != expected_serial:
        raise HostError(
            f"another board answers here: its serial is {serial}, expected {expected_serial}; nothing was done"
        )
    if is_required and not serial:
        raise HostError("the board has no readable serial, so it cannot be identified; nothing was done")
    if is_required and not expected_serial:
        raise HostError(f"no serial is expected here; the board has {serial}: add it to the rack file first")


def run_first_supported_command(
    commands: Iterable[list[str]], timeout: float = 20, extra_arguments: Iterable[str] = ()
) -> tuple[bool, str]:
    """Run the first command that the installed bladectl supports; return whether it succeeded, and its output."""
    for argv in commands:
        code, out, err = run_program([*argv, *extra_arguments], timeout=timeout)
        if code == 0:
            return True, out
        if "unknown command" not in err:
            return False, first_nonempty_line(err, out)
    return False, "the installed bladectl has no command for its LED"


def switch_identify_led(params: dict[str, Any]) -> None:
    """Light the LED, turn it off, or wait for the button; raise HostError if that fails."""
    action = params["identify"]
    if action == "dark":
        done, message = run_first_supported_command(DARKEN)
    elif action == "button":
        done, message = run_first_supported_command(LIGHT, params["button_timeout_seconds"], ["--wait"])
    else:
        done, message = run_first_supported_command(LIGHT)
    if not done:
        raise HostError(f"the blade cannot be identified: {message}")
    if action == "lit":
        shown = read_tool_output("bladectl", "get", "identify").strip()
        if shown and not pi.STYLE.sub("", shown).startswith("Active"):
            raise HostError(
                f"the blade cannot be identified: its LED was turned on, but bladectl reports {shown!r}"
            )


def read_nvme_drives(sysfs: str) -> list[pi.NvmeDrive]:
    """Return the NVMe drives with their links."""
    nvme_drives: list[pi.NvmeDrive] = []
    for folder in sorted(Path(sysfs).glob("class/nvme/nvme*")):
        speed = re.match(
            r"(\d+(?:\.\d+)?) GT/s", read_first_readable_file(folder / "device/current_link_speed")
        )
        width = read_first_readable_file(folder / "device/current_link_width")
        nvme_drives.append({
            "name": folder.name,
            "model": read_first_readable_file(folder / "model"),
            "width": int(width) if re.fullmatch(r"[1-9]\d?", width) else None,
            "gigatransfers": float(speed[1]) if speed else None,
        })  # fmt: skip
    return nvme_drives


def find_root_device() -> str:
    """Return the device of the root file system, as the kernel names it."""
    for line in read_first_readable_file("/proc/self/mountinfo").splitlines():
        before, __, after = line.partition(" - ")
        if before.split()[4] == "/":
            return after.split()[1]
    return "unknown"


def read_blade_facts(params: dict[str, Any]) -> tuple[dict[str, Any], list[pi.BoardFinding]]:
    """Return the measured values, and findings about them."""
    bits = pi.parse_throttling_bits(read_tool_output("vcgencmd", "get_throttled"))
    shown = pi.parse_bladectl_status(read_tool_output("bladectl", "get", "status"))
    supply = shown.get("Power Status")
    nvme_drives = read_nvme_drives(params["nvme_sysfs"])
    facts: dict[str, Any] = {
        "serial": read_first_readable_file(*SERIALS) or None,
        "model": read_board_model() or None,
        "throttled": None if bits is None else f"{bits:#x}",
        "flags": None if bits is None else pi.decode_throttling_flags(bits),
        "temperature_c": pi.parse_temperature_celsius(read_tool_output("vcgencmd", "measure_temp")),
        "rails": pi.parse_power_rails(read_tool_output("vcgencmd", "pmic_read_adc")) or None,
        "supply": supply,
        "supply_watts": pi.SUPPLY_WATTS.get(supply or ""),
        "fan": shown.get("Fan Speed"),
        "nvme": nvme_drives,
        "root": find_root_device(),
    }
    reasons = pi.power_findings(bits, supply, params["watts"])
    reasons += pi.nvme_link_findings(nvme_drives, params["link_width"], params["link_gigatransfers"])
    if params["medium"] == "nvme" and not nvme_drives:
        reasons.append(
            {"code": "nvme_missing", "level": "fault", "message": "the blade has no visible NVMe drive"}
        )
    return facts, reasons + pi.boot_medium_findings(facts["root"], params["medium"])


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
    )
    identifying = module.params["identify"] != "none" and not module.check_mode
    try:
        check_board_serial(
            read_first_readable_file(*SERIALS), module.params["serial"], module.params["require_serial"]
        )
        if identifying:
            switch_identify_led(module.params)
        facts, reasons = read_blade_facts(module.params)
    except HostError as error:
        module.fail_json(msg=error.msg)
    result = {"changed": False, "facts": facts, "reasons": reasons, "identified": identifying}
    if module.params["node"] and not module.check_mode:
        report = {"facts": facts, "reasons": reasons, "identified": identifying}
        result["gpufleet"] = {"node": module.params["node"], "event": "blade", "facts": report}
    module.exit_json(**result)


if __name__ == "__main__":
    main()

# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Return which board answers here, light its LED, and read power, throttling and links."""

from __future__ import annotations

DOCUMENTATION = """
module: blade
short_description: Identify a Compute Blade before anything is done to it, and read its power and links
description:
  - Compares the board's serial with the one expected here. Another board fails the task, before its LED or anything
    else is touched.
  - With I(identify) the blade's edge LED is lit through C(bladectl) and read back. C(button) waits until someone
    presses the blade's button, which confirms that this is the blade in front of them.
  - Reads throttling flags, temperature, the PMIC's rails where there is one, what feeds the blade, the NVMe drives'
    links and where the root file system is. Each finding has a level and a reason. Nothing else is changed.
options:
  node: {description: "The node's name in the inventory; with it, the registry records the findings.", type: str,
         default: ""}
  serial: {description: The serial that the registry or the rack file has for this slot., type: str, default: ""}
  require_serial:
    description: Fail where no serial is expected here, or the board tells none. For what can't be undone.
    type: bool
    default: false
  identify:
    description: What to do with the LED.
    type: str
    choices: [none, lit, button, dark]
    default: none
  button_timeout_seconds: {description: How long C(button) waits for a press., type: int, default: 300}
  watts: {description: What the blade may need at most., type: int, default: 7}
  medium:
    description: Where it is to have booted from.
    type: str
    choices: ["", nvme, netboot, sd, emmc]
    default: ""
  link_width: {description: Lanes that an NVMe drive's link has at least., type: int, default: 1}
  link_gigatransfers: {description: GT/s that it has at least., type: float, default: 5.0}
  nvme_sysfs: {description: Where NVMe drives are looked up., type: path, default: /sys}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Show which blade this is
  gpufleet.fleet.blade:
    serial: "{{ gpufleet_serial | default('') }}"
    identify: lit
"""

RETURN = """
facts: {description: What was read; what could not be read is null., returned: always, type: dict}
reasons: {description: Findings with code, level (fault or warning or unknown) and message., returned: always,
          type: list, elements: dict}
identified: {description: Whether the LED answered or the button was pressed., returned: always, type: bool}
"""

import re  # noqa: E402 - Ansible wants its documentation above the imports
from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import pi  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError, first_line, run  # noqa: E402

SERIALS = ("/proc/device-tree/serial-number", "/sys/firmware/devicetree/base/serial-number")
MODELS = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")
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


def read_first(*paths: str | Path) -> str:
    """Return the first of the files that can be read, without NULs and space at its ends."""
    for path in paths:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
        except OSError:
            continue
    return ""


def tool_output(*argv: str) -> str:
    """Return a tool's output, or an empty string where it is missing or refuses."""
    code, out, _ = run(list(argv), timeout=20)
    return out if code == 0 else ""


def check_serial(serial: str, expected: str, required: bool) -> None:
    """Stop where this is another board than the one expected here."""
    if expected and serial and serial != expected:
        raise HostError(
            f"another board answers here: its serial is {serial}, expected is {expected}; nothing was done"
        )
    if required and not serial:
        raise HostError("the board has no readable serial, so it can't be identified; nothing was done")
    if required and not expected:
        raise HostError(
            f"no serial is expected here (the board says {serial}): note it in the rack file first"
        )


def run_first_known(
    commands: Iterable[list[str]], timeout: float = 20, more: Iterable[str] = ()
) -> tuple[bool, str]:
    """Run the first of the commands that the installed bladectl knows; return whether it succeeded, and its output."""
    for argv in commands:
        code, out, err = run([*argv, *more], timeout=timeout)
        if code == 0:
            return True, out
        if "unknown command" not in err:
            return False, first_line(err, out)
    return False, "bladectl knows none of the commands tried"


def identify(params: dict[str, Any]) -> None:
    """Light or darken the LED; return whether that is certain."""
    wish = params["identify"]
    if wish == "dark":
        done, message = run_first_known(DARKEN)
    elif wish == "button":
        done, message = run_first_known(LIGHT, params["button_timeout_seconds"], ["--wait"])
    else:
        done, message = run_first_known(LIGHT)
    if not done:
        raise HostError(f"the blade can't be identified: {message}")
    if wish == "lit":
        shown = tool_output("bladectl", "get", "identify").strip()
        if shown and not pi.STYLE.sub("", shown).startswith("Active"):
            raise HostError(
                f"the blade can't be identified: its LED was asked for and bladectl says {shown!r}"
            )


def read_nvme_drives(sysfs: str) -> list[pi.Drive]:
    """Return the NVMe drives with their links."""
    nvme_drives: list[pi.Drive] = []
    for folder in sorted(Path(sysfs).glob("class/nvme/nvme*")):
        speed = re.match(r"(\d+(?:\.\d+)?) GT/s", read_first(folder / "device/current_link_speed"))
        width = read_first(folder / "device/current_link_width")
        nvme_drives.append({
            "name": folder.name,
            "model": read_first(folder / "model"),
            "width": int(width) if re.fullmatch(r"[1-9]\d?", width) else None,
            "gigatransfers": float(speed[1]) if speed else None,
        })  # fmt: skip
    return nvme_drives


def root_device() -> str:
    """Return what is mounted as root, as the kernel calls it."""
    for line in read_first("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/":
            return after.split()[1]
    return "unknown"


def read_blade(params: dict[str, Any]) -> tuple[dict[str, Any], list[pi.Reason]]:
    """Return facts and reasons."""
    bits = pi.parse_throttled(tool_output("vcgencmd", "get_throttled"))
    shown = pi.parse_status(tool_output("bladectl", "get", "status"))
    supply = shown.get("Power Status")
    nvme_drives = read_nvme_drives(params["nvme_sysfs"])
    facts: dict[str, Any] = {
        "serial": read_first(*SERIALS) or None,
        "model": read_first(*MODELS) or None,
        "throttled": None if bits is None else f"{bits:#x}",
        "flags": None if bits is None else pi.decode_flags(bits),
        "temperature_c": pi.parse_temperature(tool_output("vcgencmd", "measure_temp")),
        "rails": pi.parse_rails(tool_output("vcgencmd", "pmic_read_adc")) or None,
        "supply": supply,
        "supply_watts": pi.SUPPLY_WATTS.get(supply or ""),
        "fan": shown.get("Fan Speed"),
        "nvme": nvme_drives,
        "root": root_device(),
    }
    reasons = pi.power_reasons(bits, supply, params["watts"])
    reasons += pi.link_reasons(nvme_drives, params["link_width"], params["link_gigatransfers"])
    if params["medium"] == "nvme" and not nvme_drives:
        reasons.append({"code": "nvme_missing", "level": "fault", "message": "no NVMe drive is to be seen"})
    return facts, reasons + pi.boot_reasons(facts["root"], params["medium"])


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
    )
    identifying = module.params["identify"] != "none" and not module.check_mode
    try:
        check_serial(read_first(*SERIALS), module.params["serial"], module.params["require_serial"])
        if identifying:
            identify(module.params)
        facts, reasons = read_blade(module.params)
    except HostError as trouble:
        module.fail_json(msg=trouble.msg)
    result = {"changed": False, "facts": facts, "reasons": reasons, "identified": identifying}
    if module.params["node"] and not module.check_mode:
        report = {"facts": facts, "reasons": reasons, "identified": identifying}
        result["gpufleet"] = {"node": module.params["node"], "event": "blade", "facts": report}
    module.exit_json(**result)


if __name__ == "__main__":
    main()

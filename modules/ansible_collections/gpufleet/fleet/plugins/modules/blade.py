# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Say which board answers here, show it to who stands before the rack, and read power, throttling and links."""

from __future__ import annotations

DOCUMENTATION = """
module: blade
short_description: Identify a Compute Blade before anything is done to it, and read its power and links
description:
  - Compares the board's serial with the one expected here. Another board fails the task, before its LED or anything
    else is touched.
  - With I(identify) the blade's edge LED is lit through C(bladectl) and read back. C(button) waits until somebody
    presses the blade's button, which says that the right blade is in front of them.
  - Reads throttling flags, temperature, the PMIC's rails where there is one, what feeds the blade, the NVMe drives'
    links and where the root file system lies. Each finding has a level and a reason. Nothing else is changed.
options:
  node: {description: "The node's name in the inventory; the registry is told what was found.", type: str, default: ""}
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
  button_timeout_seconds: {description: How long C(button) waits for somebody., type: int, default: 300}
  watts: {description: What the blade may need at most., type: int, default: 7}
  medium:
    description: Where it is to have booted from.
    type: str
    choices: ["", nvme, netboot, sd, emmc]
    default: ""
  link_width: {description: Lanes that an NVMe drive's link has at least., type: int, default: 1}
  link_gigatransfers: {description: GT/s that it has at least., type: float, default: 5.0}
  nvme_sysfs: {description: Where NVMe drives are looked up., type: path, default: /sys}
author: gpufleet contributors
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
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Trouble, first_words, run  # noqa: E402

SERIALS = ("/proc/device-tree/serial-number", "/sys/firmware/devicetree/base/serial-number")
MODELS = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")
# bladectl's newer words first; the agent's first releases knew only `bladectl identify`.
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


def text_of(*paths: str | Path) -> str:
    """Return the first of the files that can be read, without NULs and space at its ends."""
    for path in paths:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
        except OSError:
            continue
    return ""


def answer(*argv: str) -> str:
    """Return a tool's output, or an empty string where it is missing or refuses."""
    code, out, _ = run(list(argv), timeout=20)
    return out if code == 0 else ""


def compare(told: str, expected: str, required: bool) -> None:
    """Stop where this is another board than the one expected here."""
    if expected and told and told != expected:
        raise Trouble(
            f"another board answers here: its serial is {told}, expected is {expected}; nothing was done"
        )
    if required and not told:
        raise Trouble("the board tells no serial, so it can't be told apart from another; nothing was done")
    if required and not expected:
        raise Trouble(f"no serial is expected here (the board says {told}): note it in the rack file first")


def tried(commands: Iterable[list[str]], timeout: float = 20, more: Iterable[str] = ()) -> tuple[bool, str]:
    """Run the first of the commands that the installed bladectl knows; return whether it succeeded, and its words."""
    for argv in commands:
        code, out, err = run([*argv, *more], timeout=timeout)
        if code == 0:
            return True, out
        if "unknown command" not in err:
            return False, first_words(err, out)
    return False, "bladectl knows none of the commands tried"


def identify(params: dict[str, Any]) -> None:
    """Light or darken the LED; return whether that is certain."""
    wish = params["identify"]
    if wish == "dark":
        done, said = tried(DARKEN)
    elif wish == "button":
        done, said = tried(LIGHT, params["button_timeout_seconds"], ["--wait"])
    else:
        done, said = tried(LIGHT)
    if not done:
        raise Trouble(f"the blade can't be identified: {said}")
    if wish == "lit":
        shown = answer("bladectl", "get", "identify").strip()
        if shown and not pi.STYLE.sub("", shown).startswith("Active"):
            raise Trouble(f"the blade can't be identified: its LED was asked for and bladectl says {shown!r}")


def drives(sysfs: str) -> list[pi.Drive]:
    """Return the NVMe drives with their links."""
    found: list[pi.Drive] = []
    for folder in sorted(Path(sysfs).glob("class/nvme/nvme*")):
        speed = re.match(r"(\d+(?:\.\d+)?) GT/s", text_of(folder / "device/current_link_speed"))
        width = text_of(folder / "device/current_link_width")
        found.append({
            "name": folder.name,
            "model": text_of(folder / "model"),
            "width": int(width) if re.fullmatch(r"[1-9]\d?", width) else None,
            "gigatransfers": float(speed[1]) if speed else None,
        })  # fmt: skip
    return found


def root_source() -> str:
    """Return what is mounted as root, as the kernel calls it."""
    for line in text_of("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/":
            return after.split()[1]
    return "unknown"


def read(params: dict[str, Any]) -> tuple[dict[str, Any], list[pi.Reason]]:
    """Return facts and reasons."""
    bits = pi.throttled(answer("vcgencmd", "get_throttled"))
    shown = pi.status(answer("bladectl", "get", "status"))
    supply = shown.get("Power Status")
    found = drives(params["nvme_sysfs"])
    facts: dict[str, Any] = {
        "serial": text_of(*SERIALS) or None,
        "model": text_of(*MODELS) or None,
        "throttled": None if bits is None else f"{bits:#x}",
        "flags": None if bits is None else pi.flags(bits),
        "temperature_c": pi.temperature(answer("vcgencmd", "measure_temp")),
        "rails": pi.rails(answer("vcgencmd", "pmic_read_adc")) or None,
        "supply": supply,
        "supply_watts": pi.SUPPLY_WATTS.get(supply or ""),
        "fan": shown.get("Fan Speed"),
        "nvme": found,
        "root": root_source(),
    }
    reasons = pi.power_reasons(bits, supply, params["watts"])
    reasons += pi.link_reasons(found, params["link_width"], params["link_gigatransfers"])
    if params["medium"] == "nvme" and not found:
        reasons.append({"code": "nvme_missing", "level": "fault", "message": "no NVMe drive is to be seen"})
    return facts, reasons + pi.boot_reasons(facts["root"], params["medium"])


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
    )
    asked = module.params["identify"] != "none" and not module.check_mode
    try:
        compare(text_of(*SERIALS), module.params["serial"], module.params["require_serial"])
        if asked:
            identify(module.params)
        facts, reasons = read(module.params)
    except Trouble as trouble:
        module.fail_json(msg=trouble.msg)
    result = {"changed": False, "facts": facts, "reasons": reasons, "identified": asked}
    if module.params["node"] and not module.check_mode:
        told = {"facts": facts, "reasons": reasons, "identified": asked}
        result["gpufleet"] = {"node": module.params["node"], "event": "blade", "facts": told}
    module.exit_json(**result)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read, in one cheap call, what tells a node apart: serial, machine id, architecture, system, network card."""

from __future__ import annotations

DOCUMENTATION = """
module: probe
short_description: Identify a node by its serial, machine id, architecture, system and network card
description:
  - Reads the few facts that gpufleet needs, in a fifth of C(setup)'s time, and the serial in a Raspberry Pi's device
    tree, which C(setup) does not read. Changes nothing.
  - The result's C(gpufleet) key reports to the registry that the node answered and who it is.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  attempt: {description: Identifier of this commissioning attempt., type: str, default: ""}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Identify the node
  gpufleet.fleet.probe:
    node: "{{ inventory_hostname }}"
  register: commission_probe
"""

RETURN = """
facts: {description: Identity and system of the node; an unreadable value is missing., returned: always, type: dict}
applications:
  description: Services of the application that a node's template installed.
  returned: always
  type: list
  elements: str
network_keepers:
  description: >-
    Services that configure interfaces of this host: C(netplan), C(networkmanager), C(ifupdown), C(networkd) (link
    files).
  returned: always
  type: list
  elements: str
has_kernel_arguments:
  description: Whether gpufleet added arguments to the kernel's command line, also those that are no longer requested.
  returned: always
  type: bool
"""

import platform  # noqa: E402 - Ansible wants its documentation above the imports
import shutil  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

SPEC = {"node": {"type": "str", "required": True}, "attempt": {"type": "str", "default": ""}}
SERIAL_FILES = (
    ("device_tree", "proc/device-tree/serial-number"),
    ("device_tree", "sys/firmware/devicetree/base/serial-number"),
    ("dmi", "sys/class/dmi/id/product_serial"),
    ("dmi", "sys/class/dmi/id/board_serial"),
)
# What a BMC may know a machine by instead; the role power compares them.
IDENTIFIER_FILES = {
    "board_serial": "sys/class/dmi/id/board_serial",
    "chassis_serial": "sys/class/dmi/id/chassis_serial",
    "uuid": "sys/class/dmi/id/product_uuid",
}
MODEL_FILES = (
    "proc/device-tree/model",
    "sys/firmware/devicetree/base/model",
    "sys/class/dmi/id/product_name",
)


# The files of M(gpufleet.fleet.kernel_arguments), and that of earlier versions.
KERNEL_ARGUMENT_FILES = (
    "var/lib/gpufleet/kernel_arguments.json",
    "etc/default/grub.d/61-gpufleet-arguments.cfg",
    "etc/default/grub.d/60-gpufleet.cfg",
)


def read_text_or_empty(path: Path) -> str:
    """Return a small file's text without NULs and space at its ends, or an empty string."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
    except OSError:
        return ""


def read_board_serial(root: Path) -> dict[str, str]:
    """Return the board's serial and its source; empty if it has none."""
    for source, path in SERIAL_FILES:
        text = read_text_or_empty(root / path)
        if text:
            return {"serial": text, "serial_source": source}
    return {}


def parse_os_release(text: str) -> dict[str, str]:
    """Return id, version and name of /etc/os-release."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    names = {"os": "ID", "os_version": "VERSION_ID", "os_name": "PRETTY_NAME"}
    return {name: pairs[theirs].strip('"') for name, theirs in names.items() if theirs in pairs}


def find_default_interface(route_table: str) -> str:
    """Return the interface of the IPv4 default route in /proc/net/route, or the first one listed."""
    rows = [line.split() for line in route_table.splitlines()[1:]]
    for row in rows:
        if len(row) > 1 and row[1] == "00000000":
            return row[0]
    return rows[0][0] if rows and rows[0] else ""


def read_node_facts(root: Path) -> dict[str, Any]:
    """Return identity and system of the node, without values that could not be read."""
    values: dict[str, Any] = {
        "arch": platform.machine(),
        "kernel": platform.release(),
        "hostname": platform.node(),
    }
    values.update(read_board_serial(root))
    values.update({name: read_text_or_empty(root / path) for name, path in IDENTIFIER_FILES.items()})
    values["model"] = next(filter(None, (read_text_or_empty(root / path) for path in MODEL_FILES)), "")
    values["machine_id"] = read_text_or_empty(root / "etc/machine-id")
    values.update(parse_os_release(read_text_or_empty(root / "etc/os-release")))
    if (
        root / "etc/rpi-issue"
    ).exists():  # 64-bit Raspberry Pi OS calls itself Debian; its image builder leaves this
        values["os_variant"] = "raspberry-pi-os"
    interface = find_default_interface(read_text_or_empty(root / "proc/net/route"))
    values["mac"] = read_text_or_empty(root / "sys/class/net" / interface / "address") if interface else ""
    values["root_free_mib"] = shutil.disk_usage(root).free // 2**20
    return {key: value for key, value in values.items() if value != ""}


def list_installed_applications(root: Path) -> list[str]:
    """Return the applications that a template installed, so that a later template can stop them."""
    names = [path.name for path in (root / "etc/containers/systemd/gpufleet").glob("*")]
    names += [path.parent.name for path in (root / "etc/gpufleet/compose").glob("*/compose.yaml")]
    # Units that releases before container files rendered.
    rendered = [*(root / "etc/containers/systemd").glob("gpufleet-*.container")]
    rendered += (root / "etc/systemd/system").glob("gpufleet-*.service")
    names += [path.stem for path in rendered if "from the node's template" in read_text_or_empty(path)[:120]]
    return sorted(names)


def detect_network_managers(root: Path) -> list[str]:
    """Return the services that configure this host's interfaces, by the files that each leaves when it runs."""
    netplan = [
        name for place in ("etc", "usr/lib", "run") for name in (root / place / "netplan").glob("*.yaml")
    ]
    program = any((root / "usr" / place / "netplan").exists() for place in ("sbin", "bin"))
    up = {line.split("=")[0] for line in read_text_or_empty(root / "run/network/ifstate").splitlines()} - {
        "lo",
        "",
    }
    active = {
        "netplan": netplan and program,
        "networkmanager": any(
            (root / "run/NetworkManager/devices").glob("*")
        ),  # conf.d there is netplan's too
        "ifupdown": up,
        "networkd": (
            root / "run/udev/control"
        ).exists(),  # udev reads link files, whatever else manages interfaces
    }
    return [name for name, there in active.items() if there]


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    identity = read_node_facts(Path("/"))
    result = {
        "changed": False,
        "facts": identity,
        "applications": list_installed_applications(Path("/")),
        "network_keepers": detect_network_managers(Path("/")),
        "has_kernel_arguments": any((Path("/") / path).exists() for path in KERNEL_ARGUMENT_FILES),
    }
    if not module.check_mode:  # a trial run must not move the node's state
        result["gpufleet"] = {
            "node": module.params["node"],
            "event": "commissioned",
            "attempt": module.params["attempt"],
            "facts": identity,
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collect what a plan for wiping needs to know of a node: its drives as their tools show them, and who works there."""

from __future__ import annotations

DOCUMENTATION = """
module: disks
short_description: Read a node's drives and its running jobs
description:
  - Collects C(lsblk), C(nvme id-ctrl), C(hdparm -I), the NVMe controllers' transport, C(/dev/disk/by-id), whether this
    is a container, what device the root file system is on, and which containers and application units run.
  - Changes nothing; C(gpufleet.fleet.wipe_plan) makes a plan of it on the controller.
options:
  units: {description: Glob patterns of units that count as jobs., type: list, elements: str,
          default: ["gpufleet-application.*"]}
  fake_drives: {description: "In a rehearsal, the folder of the host's file-backed drive, with its tools.", type: path}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Read the drives
  gpufleet.fleet.disks:
  register: wipe_drives
"""

RETURN = """
drive_facts: {description: "Output of the tools, for C(gpufleet.fleet.wipe_plan).", returned: always, type: dict}
jobs: {description: Containers and units that run., returned: always, type: list, elements: str}
"""

import json  # noqa: E402 - Ansible wants its documentation above the imports
import os  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    HostError,
    first_nonempty_line,
    run_program,
)

COLUMNS = "NAME,PATH,TYPE,SIZE,MODEL,SERIAL,TRAN,ROTA,RM,RO,DISC-MAX,FSTYPE,MOUNTPOINTS"


def read_tool_output(argv: list[str], **env: str) -> str:
    """Return a tool's output, or an empty string if it is missing or fails."""
    code, out, __ = run_program(argv, timeout=60, **env)
    return out if code == 0 else ""


def parse_json_or_empty(text: str) -> dict[str, Any]:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {}


def list_block_devices(**env: str) -> dict[str, Any]:
    """Return lsblk's tree."""
    code, out, err = run_program(["lsblk", "--json", "--bytes", "--output", COLUMNS], timeout=60, **env)
    if code:
        raise HostError(f"lsblk failed: {first_nonempty_line(err, out)}")
    return parse_json_or_empty(out)


def read_nvme_controllers(lsblk_tree: dict[str, Any], **env: str) -> dict[str, Any]:
    """Return each NVMe controller's transport and ``nvme id-ctrl``."""
    by_name = {}
    for disk in lsblk_tree.get("blockdevices", []):
        name, __, space = disk["name"].rpartition("n")
        if disk["name"].startswith("nvme") and space.isdigit():
            link = Path("/sys/class/nvme", name, "transport")
            transport = link.read_text(encoding="utf-8").strip() if link.is_file() else ""
            id_ctrl = parse_json_or_empty(
                read_tool_output(["nvme", "id-ctrl", f"/dev/{name}", "-o", "json"], **env)
            )
            by_name[name] = {"transport": transport, "id_ctrl": id_ctrl}
    return by_name


def read_hdparm_output(lsblk_tree: dict[str, Any], **env: str) -> dict[str, str]:
    """Return ``hdparm -I`` of every SATA drive."""
    names = [
        disk["name"] for disk in lsblk_tree.get("blockdevices", []) if disk.get("tran") in ("sata", "ata")
    ]
    return {name: read_tool_output(["hdparm", "-I", f"/dev/{name}"], **env) for name in names}


def list_persistent_drive_links() -> dict[str, str]:
    """Return drive path to its link below /dev/disk/by-id; of several the longest, which is the most specific."""
    links = {}
    folder = Path("/dev/disk/by-id")
    for link in sorted(folder.iterdir(), key=lambda link: len(link.name)) if folder.is_dir() else ():
        links[os.path.realpath(link)] = str(link)
    return links


def find_root_device() -> str:
    """Return the device of the root file system; empty if it is unknown."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, __, after = line.partition(" - ")
        if before.split()[4] == "/":
            return after.split()[1]
    return ""


def list_running_jobs(unit_patterns: list[str]) -> list[str]:
    """Return the running containers of podman and Docker, and the active units that match a pattern."""
    names = {
        tool: read_tool_output([tool, "ps", "--format", "{{.Names}}"]).split()
        for tool in ("podman", "docker")
    }
    containers = [
        f"container {name} ({tool})"
        for tool, containers_of_tool in names.items()
        for name in containers_of_tool
    ]
    listing = (
        read_tool_output(
            ["systemctl", "list-units", "--state=active", "--plain", "--no-legend", *unit_patterns]
        )
        if unit_patterns
        else ""
    )
    return containers + [f"unit {line.split()[0]}" for line in listing.splitlines() if line.split()]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": ["gpufleet-application.*"]},
            "fake_drives": {"type": "path"},
        },
        supports_check_mode=True,
    )
    folder = module.params["fake_drives"]
    env = {"PATH": f"{folder}/bin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"} if folder else {}
    try:
        tree = list_block_devices(**env)
    except HostError as error:
        module.fail_json(msg=error.msg)
    drive_facts = {
        "lsblk": tree,
        "controllers": read_nvme_controllers(tree, **env),
        "hdparm": read_hdparm_output(tree, **env),
        "by_id": list_persistent_drive_links(),
        "container": read_tool_output(["systemd-detect-virt", "--container"]).strip() or None,
        "root": find_root_device(),
        "fake_drives": folder,
    }
    module.exit_json(changed=False, drive_facts=drive_facts, jobs=list_running_jobs(module.params["units"]))


if __name__ == "__main__":
    main()

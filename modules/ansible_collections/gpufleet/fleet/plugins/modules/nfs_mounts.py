# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mount folders of NFS servers, and unmount those that are no longer requested."""

from __future__ import annotations

DOCUMENTATION = """
module: nfs_mounts
short_description: Mount folders of NFS servers
description:
  - Keeps one line of C(/etc/fstab) for each mount, with the option C(x-gpufleet.nfs). Lines with this option that are
    no longer requested are unmounted and removed. Other lines stay, and a mount point of another line is refused.
  - Before any change, each server of a new mount must accept a TCP connection. If a mount fails, the previous
    C(/etc/fstab) is restored.
  - A mount that is in use is not unmounted, and the task fails without a change.
options:
  mounts:
    description: The mounts. An empty list removes all mounts of this module.
    type: list
    elements: dict
    default: []
    suboptions:
      mount: {description: Mount point., type: path, required: true}
      server: {description: Host name or address of the server., type: str, required: true}
      path: {description: Folder of the server., type: str, required: true}
      options: {description: "Options of nfs(5), such as C(ro).", type: list, elements: str, default: []}
      automount: {description: Mount at the first access instead of now., type: bool, default: true}
  state:
    description: C(mounted) mounts now. C(present) writes only C(/etc/fstab), for the next boot.
    type: str
    choices: [mounted, present]
    default: mounted
  timeout_seconds: {description: How long to wait for the answer of a server., type: int, default: 5}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Mount the home folders
  gpufleet.fleet.nfs_mounts:
    mounts:
      - {mount: /data, server: 198.18.1.10, path: /srv/data, options: [ro]}
"""

RETURN = """
mounted: {description: Mount points that were mounted., returned: always, type: list, elements: str}
unmounted: {description: Mount points that were unmounted., returned: always, type: list, elements: str}
"""

import socket  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import nfs, tools  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.fstab import (  # noqa: E402
    FSTAB,
    require_kernel_module,
    write_fstab,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

MOUNTS = Path("/proc/mounts")
MOUNT_SECONDS = 60
NETWORK_TYPES = ("nfs", "autofs")  # nfs is also the start of nfs4

SPEC: dict[str, Any] = {
    "mounts": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "mount": {"type": "path", "required": True},
            "server": {"type": "str", "required": True},
            "path": {"type": "str", "required": True},
            "options": {"type": "list", "elements": "str", "default": []},
            "automount": {"type": "bool", "default": True},
        },
    },
    "state": {"type": "str", "choices": ["mounted", "present"], "default": "mounted"},
    "timeout_seconds": {"type": "int", "default": 5},
}


def check_server_answers(mount: nfs.NfsMount, timeout_seconds: float) -> None:
    """Raise HostError if the server does not accept a connection in time."""
    server, port = mount["server"], nfs.mount_port(mount)
    try:
        socket.create_connection((server, port), timeout=timeout_seconds).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostError(
            f"{mount['mount']}: the NFS server {server} does not answer on port {port} ({reason}); nothing was "
            "changed; check that it is on, exports the folder, and that its firewall lets this host in"
        ) from None


def run_mount_program(mount_point: str, *argv: str) -> None:
    """Run a program about a mount; a HostError names the mount point."""
    status, out, err = tools.run_program(argv, timeout=MOUNT_SECONDS)
    if status != 0:
        raise HostError(f"{mount_point}: {tools.first_nonempty_line(err, out)}")


def format_unit_name(mount_point: str) -> str:
    """Return the name of the automount unit that systemd makes of the line in fstab."""
    command = ("systemd-escape", "--path", "--suffix=automount", mount_point)
    return tools.run_required_program(*command).strip()


def unmount(mount_point: str, active: dict[str, str]) -> None:
    """Stop the automount and unmount what is there."""
    if active.get(mount_point, "").startswith("nfs"):
        run_mount_program(mount_point, "umount", mount_point)
    # With an automount below the mount, /proc/mounts has named the upper one.
    if nfs.parse_active_mounts(MOUNTS.read_text(encoding="utf-8")).get(mount_point) == "autofs":
        run_mount_program(mount_point, "systemctl", "stop", format_unit_name(mount_point))


def mount_now(mount: nfs.NfsMount) -> None:
    """Mount, or start the automount and use it once, so that a folder that the server refuses fails here."""
    place = mount["mount"]
    Path(place).mkdir(parents=True, exist_ok=True)
    if mount["automount"]:
        run_mount_program(place, "systemctl", "start", format_unit_name(place))
        run_mount_program(place, "ls", "-d", f"{place}/.")
    else:
        run_mount_program(place, "mount", place)


def apply_mounts(
    mounts: list[nfs.NfsMount], state: str, timeout_seconds: float, *, check_mode: bool
) -> dict[str, Any]:
    """Write fstab and mount what differs; return the result."""
    nfs.check_mounts(mounts)
    before = FSTAB.read_text(encoding="utf-8") if FSTAB.exists() else ""
    after = nfs.edit_fstab(before, mounts)
    active = nfs.parse_active_mounts(MOUNTS.read_text(encoding="utf-8"))
    replaced = nfs.list_replaced_mount_points(before, mounts)
    for mount in mounts:
        if not active.get(mount["mount"], "nfs").startswith(NETWORK_TYPES):
            raise HostError(f"{mount['mount']}: another file system is mounted there; nothing was changed")
    leaving = [point for point in replaced if active.get(point, "").startswith(NETWORK_TYPES)]
    new = [mount for mount in mounts if mount["mount"] in leaving or mount["mount"] not in active]
    new = new if state == "mounted" else []
    for mount in new:
        check_server_answers(mount, timeout_seconds)
        require_kernel_module("nfs", mount["mount"])  # one module of the kernel has both types
    result = {
        "changed": bool(before != after or leaving or new),
        "mounted": [mount["mount"] for mount in new],
        "unmounted": leaving,
        "diff": tools.build_diff_entry(str(FSTAB), before, after),
    }
    if check_mode or not result["changed"]:
        return result
    for point in leaving:
        unmount(point, active)
    if before != after:
        write_fstab(after)
    try:
        for mount in new:
            mount_now(mount)
    except HostError:
        if before != after:
            write_fstab(before)  # else the next run would find nothing to do
        raise
    return result


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    params = module.params
    try:
        result = apply_mounts(
            params["mounts"], params["state"], params["timeout_seconds"], check_mode=module.check_mode
        )
        module.exit_json(**result)
    except HostError as error:
        module.fail_json(msg=error.msg)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make scratch volumes of local disks, and never of one that holds anything."""

from __future__ import annotations

DOCUMENTATION = """
module: scratch
short_description: Create and mount scratch volumes on local disks; every disk is identified first
description:
  - Reads all disks (lsblk, and blkid on the disk itself, because udev's record may be stale) and makes one volume of
    the disks that match; several become a RAID 0. All volumes are planned before the first command.
  - Fails before that, too, if an owner does not exist, the kernel has no such file system or no RAID 0, another
    file system is mounted at the mount point, or the folder there has files that the volume would hide.
  - Fails for a disk with data, unless its serial is in I(wipe_confirmed); a disk in use is never erased.
  - Mounts by UUID, in C(/etc/fstab) with nofail. A volume that exists already is found by its label and left unchanged,
    except that its file system grows with its disk.
options:
  volumes:
    description: The volumes.
    type: list
    elements: dict
    required: true
    suboptions:
      mount: {description: Mount point., type: path, required: true}
      devices: {description: "Patterns of disks: a path, C(model:), C(serial:), C(transport:), C(size:) or C(ebs:).",
                type: list, elements: str, required: true}
      count: {description: "Expected number of disks; 0 takes all that match.", type: int, default: 0}
      layout: {description: "C(raid0) takes all disks that match, C(single) one of them.", type: str,
               choices: [raid0, single], default: raid0}
      filesystem: {description: File system., type: str, choices: [xfs, ext4], default: xfs}
      options: {description: Mount options., type: list, elements: str, default: [noatime]}
      owner: {description: Owner of the mounted folder., type: str, default: root}
      group: {description: Group of the mounted folder., type: str, default: root}
      mode: {description: "Mode of the mounted folder; C(keep) leaves owner, group and mode alone.", type: str,
             default: "1777"}
  wipe_confirmed: {description: Serials of disks that may be erased., type: list, elements: str, default: []}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: One fast volume of all instance-store disks
  gpufleet.fleet.scratch:
    volumes:
      - {mount: /scratch, devices: ["model:Amazon EC2 NVMe Instance Storage"]}
"""

RETURN = """
steps: {description: "Commands that were run, in check mode those that would be.", returned: always, type: list}
devices: {description: Mount point to device., returned: always, type: dict}
"""

import grp  # noqa: E402 - Ansible wants its documentation above the imports
import json  # noqa: E402
import os  # noqa: E402
import pwd  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import disks, ebs  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.fstab import (  # noqa: E402
    FSTAB,
    require_kernel_module,
    write_fstab,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    Access,
    HostError,
    read_access,
    run_program,
    run_required_program,
    set_file_access,
)

NOTHING_FOUND = 2  # blkid's exit status
DISK_LINKS = "/dev/disk/"
KEEP = "keep"
COLUMNS = "NAME,PATH,TYPE,SIZE,MODEL,SERIAL,TRAN,RO,MOUNTPOINTS"
TEXTS = {"type": "list", "elements": "str"}
VOLUME = {
    "mount": {"type": "path", "required": True},
    "devices": {**TEXTS, "required": True},
    "count": {"type": "int", "default": 0},
    "layout": {"type": "str", "choices": ["raid0", "single"], "default": "raid0"},
    "filesystem": {"type": "str", "choices": ["xfs", "ext4"], "default": "xfs"},
    "options": {**TEXTS, "default": ["noatime"]},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "1777"},
}
SPEC = {
    "volumes": {"type": "list", "elements": "dict", "required": True, "options": VOLUME},
    "wipe_confirmed": {**TEXTS, "default": []},
}


def read_disk_signature(path: str) -> disks.Signature:
    """Return what blkid finds on the device; an unreadable device counts as one with data."""
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        return {"TYPE": f"unreadable data ({error.strerror})"}
    status, out, __ = run_program(["blkid", "--probe", "--output", "export", path])
    if status == NOTHING_FOUND:
        return {}
    properties = dict(line.partition("=")[::2] for line in out.splitlines())
    properties.pop("DEVNAME", None)
    return properties if status == 0 and properties else {"TYPE": "more than one kind of data"}


def read_disks_and_signatures(
    volumes: list[disks.ScratchVolume],
) -> tuple[list[disks.BlockDevice], dict[str, disks.Signature]]:
    """Return all disks, and the signatures of those that match any volume and of the arrays on them."""
    devices = json.loads(run_required_program("lsblk", "--json", "--bytes", "--output", COLUMNS))[
        "blockdevices"
    ]
    if any(pattern.startswith("ebs:") for volume in volumes for pattern in volume["devices"]):
        for device in devices:
            if disks.collapse_blanks(device.get("model")) == ebs.MODEL:
                device["ebs"] = ebs.read_device_name(device["path"])
    candidates = [
        d for d in devices if any(disks.disk_matches_pattern(d, p) for v in volumes for p in v["devices"])
    ]
    paths = {part["path"] for disk in candidates for part in disks.flatten_device_tree(disk)}
    return devices, {path: read_disk_signature(path) for path in sorted(paths)}


def resolve_disk_pattern(pattern: str) -> list[str]:
    """Return the devices that links below /dev/disk point to; any other pattern unchanged."""
    if not pattern.startswith(DISK_LINKS):
        return [pattern]
    links = Path(DISK_LINKS).glob(pattern.removeprefix(DISK_LINKS))
    return sorted({str(link.resolve()) for link in links}) or [pattern]


def check_volume_preconditions(volume: disks.ScratchVolume, device: str, commands: list[list[str]]) -> None:
    """Raise HostError, before anything is written, for what would fail later."""
    needed = [
        volume["filesystem"],
        *["raid0" for command in commands if command[:2] == ["mdadm", "--create"]],
    ]
    for name in needed:
        require_kernel_module(name, volume["mount"])
    place = Path(volume["mount"])
    if place.is_mount() and (commands or place.stat().st_dev != Path(device).stat().st_rdev):
        raise HostError(f"{place}: another file system is mounted there")
    if not place.is_mount() and any(names for *__, names in os.walk(place)):
        raise HostError(
            f"{place}: this folder has files that the volume would hide; move them, then run again"
        )


def requested_volume_access(volume: disks.ScratchVolume, check_mode: bool) -> Access | None:
    """Return the requested mode, user id and group id.

    None if they are to be kept, and in check mode if the owner is still to be created.
    """
    where = volume["mount"]
    if volume["mode"] == KEEP:
        return None
    try:
        mode = int(volume["mode"], 8)
    except ValueError:
        raise HostError(f"{where}: mode {volume['mode']} is not an octal number") from None
    try:
        return mode, pwd.getpwnam(volume["owner"]).pw_uid, grp.getgrnam(volume["group"]).gr_gid
    except KeyError:
        if check_mode:
            return None
        raise HostError(
            f"{where}: user {volume['owner']} or group {volume['group']} does not exist"
        ) from None


def mount_volume(device: str, volume: disks.ScratchVolume, check_mode: bool) -> bool:
    """Write fstab, mount the volume and set the folder's access; return whether anything differed."""
    place = Path(volume["mount"])
    uuid = read_disk_signature(device).get("UUID")
    if not uuid:
        raise HostError(f"{device} has no UUID after its file system was made")
    before = FSTAB.read_text(encoding="utf-8") if FSTAB.exists() else ""
    after = disks.replace_fstab_line(before, disks.fstab_line(uuid, volume), volume["mount"])
    rights = requested_volume_access(volume, check_mode)
    differs = (
        before != after or not place.is_mount() or (volume["mode"] != KEEP and read_access(place) != rights)
    )
    if not differs or check_mode:
        return differs
    place.mkdir(parents=True, exist_ok=True)
    if before != after:
        write_fstab(after)
    try:
        if not place.is_mount():
            run_required_program("mount", place)
        elif before != after:
            run_required_program("mount", "--options", "remount", place)
    except HostError:
        if before != after:
            write_fstab(before)  # else the next run would find nothing to do
        raise
    if rights:
        set_file_access(place, rights)
    return True


def plan_growth(device: str, volume: disks.ScratchVolume) -> list[list[str]]:
    """Return the command that grows a mounted volume to its disk, if the disk has grown."""
    if not Path(volume["mount"]).is_mount():
        return []
    with Path(device).open("rb") as file:
        head = file.read(disks.SUPERBLOCKS)
        command = disks.grow_command(device, file.seek(0, os.SEEK_END), head, volume)
    return [command] if command else []


def grow_filesystem(command: list[str], volume: disks.ScratchVolume) -> None:
    """Run the command; both programs print their name or the old size first, and the reason last."""
    status, out, err = run_program(command)
    if status != 0:
        lines = (err.strip() or out.strip() or "no reason given").splitlines()
        raise HostError(f"{volume['mount']}: its disk has grown, but its file system could not: {lines[-1]}")


def make_and_mount_volumes(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Plan all volumes, then make and mount them."""
    for volume in params["volumes"]:
        volume["devices"] = [path for pattern in volume["devices"] for path in resolve_disk_pattern(pattern)]
        requested_volume_access(volume, check_mode)
    devices, signatures = read_disks_and_signatures(params["volumes"])
    plans = [
        (volume, *disks.plan_volume(devices, signatures, volume, params["wipe_confirmed"]))
        for volume in params["volumes"]
    ]
    claimed = [
        disk["path"]
        for volume in params["volumes"]
        for disk in disks.choose_volume_disks(devices, signatures, volume)
    ]
    if shared := sorted({path for path in claimed if claimed.count(path) > 1}):
        raise HostError(f"{', '.join(shared)} would be part of two volumes")
    for plan in plans:
        check_volume_preconditions(*plan)
    changed, steps = False, []
    for volume, device, commands in plans:
        for command in [] if check_mode else commands:
            run_required_program(*command)
        changed = changed or bool(commands)
        if not (check_mode and commands):
            changed = mount_volume(device, volume, check_mode) or changed
        growth = [] if commands else plan_growth(device, volume)
        for command in [] if check_mode else growth:
            grow_filesystem(command, volume)
        steps += [*commands, *growth]
    return {
        "changed": changed or bool(steps),
        "steps": steps,
        "devices": {volume["mount"]: device for volume, device, __ in plans},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(**make_and_mount_volumes(module.params, module.check_mode))
    except HostError as error:
        module.fail_json(msg=error.msg, **error.result)


if __name__ == "__main__":
    main()

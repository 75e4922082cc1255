"""The plan of a wipe: which drives are wiped and how, which are not and why, from the node's own tools. Pure.

A plan is made from recordings (``lsblk --json``, ``nvme id-ctrl``, ``hdparm -I``, sysfs) and shown before anything
happens; what is wiped later is exactly what it lists, by serial and size.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_yaml
from gpufleet.errors import InputError
from gpufleet.nodes.wipe_evidence import check_drive_report

# System mounts: a drive that carries one of these can't be wiped from the system that runs on it.
SYSTEM_MOUNTS = (
    "/",
    "/boot",
    "/boot/efi",
    "/boot/firmware",
    "/etc",
    "/home",
    "/opt",
    "/root",
    "/usr",
    "/var",
)
LOCAL = {"nvme": "nvme", "sata": "ata", "ata": "ata", "sas": "scsi", "mmc": "mmc"}
SWAP = "[SWAP]"  # as lsblk shows swap space that is in use
POOLS = {"zfs_member": "a ZFS pool (zpool export)", "ceph_bluestore": "Ceph"}
FABRICS = {"iscsi": "iSCSI", "fc": "Fibre Channel", "fcoe": "FCoE", "rdma": "RDMA", "tcp": "NVMe over TCP"}
NETWORK_NAMES = re.compile(r"(nbd|rbd|drbd|dm-|md)")
MEMORY_NAMES = re.compile(r"(zram|ram|loop|fd|sr)\d+$")


@dataclass(frozen=True)
class DriveToWipe:
    """A drive that will be wiped: which, how, and what may be claimed afterwards."""

    path: str
    by_id: str | None
    model: str
    serial: str
    size: int
    kind: str
    method: str
    strength: str
    tool: str
    commands: list[list[str]]
    poll: list[str] | None = None
    zeroes: bool = False
    unmount: list[str] = field(default_factory=list)
    release: list[list[str]] = field(default_factory=list)
    whole_controller: bool = False


@dataclass(frozen=True)
class RefusedDrive:
    """A drive that is left alone, with the reason; ``is_local`` if it is the node's own and its content stays."""

    path: str
    serial: str | None
    size: int | None
    reason: str
    is_local: bool


@dataclass(frozen=True)
class WipePlan:
    drives: tuple[DriveToWipe, ...]
    refused: tuple[RefusedDrive, ...]

    @property
    def plan_id(self) -> str:
        """Return what this plan and no other is called: what was shown is what is confirmed."""
        identity = [[d.path, d.serial, d.size, d.method, d.commands] for d in self.drives]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]

    @property
    def is_complete(self) -> bool:
        """True if every local drive will be wiped."""
        return not any(refused.is_local for refused in self.refused)

    def as_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "id": self.plan_id,
            "complete": self.is_complete,
            "drives": [asdict(drive) for drive in self.drives],
            "refused": [asdict(drive) for drive in self.refused],
        }


@cache
def load_wipe_methods() -> dict[str, Any]:
    """Return the methods and their sources."""
    methods: dict[str, Any] = read_packaged_yaml("gpufleet.nodes", "data/wipe_methods.yaml")
    return methods


def check_wipe_method(method: str) -> None:
    """Raise InputError for a wipe method that the table does not have."""
    known_methods = sorted(
        {
            wipe_method["name"]
            for kind, group in load_wipe_methods().items()
            if kind != "release"
            for wipe_method in group
        }
    )
    if method not in ("auto", *known_methods):
        raise InputError(
            f"unknown wipe method {method!r}",
            where="--method",
            remedy=f"methods: auto, {', '.join(known_methods)}",
        )


def plan_wipe(drive_report: Mapping[str, Any], method: str = "auto") -> WipePlan:
    """Return what would be wiped of the drives that a node reports (``gpufleet.fleet.disks``)."""
    check_wipe_method(method)
    check_drive_report(drive_report)
    drives: list[DriveToWipe] = []
    refused: list[RefusedDrive] = []
    for disk in drive_report.get("lsblk", {}).get("blockdevices", []):
        if MEMORY_NAMES.match(disk["name"]):
            continue
        decision = _plan_disk(disk, drive_report, method)
        (drives if isinstance(decision, DriveToWipe) else refused).append(decision)  # type: ignore[arg-type]  # the lists differ by that very test
    return _refuse_shared_controllers(drives, refused)


def _plan_disk(
    disk: Mapping[str, Any], devices: Mapping[str, Any], method: str
) -> DriveToWipe | RefusedDrive:
    """Return how one disk is wiped, or why it is not."""
    if reason := _foreign_reason(disk, devices):
        return _refuse(disk, reason, is_local=False)
    if reason := _keep_reason(disk, devices):
        return _refuse(disk, reason, is_local=True)
    kind = classify_disk_interface(disk)
    disk_can = find_supported_wipe_features(disk, devices, method=method)
    wipe_method = _choose(kind, disk_can, method)
    if wipe_method is None:
        return _refuse(disk, f"it can't be wiped by {method}", is_local=True)
    return _drive(disk, devices, kind, wipe_method)


def _refuse(disk: Mapping[str, Any], reason: str, *, is_local: bool) -> RefusedDrive:
    size = int(disk["size"]) if disk.get("size") is not None else None
    return RefusedDrive(
        disk.get("path") or f"/dev/{disk['name']}", _text(disk.get("serial")) or None, size, reason, is_local
    )


def _foreign_reason(disk: Mapping[str, Any], devices: Mapping[str, Any]) -> str:
    """Return why a disk is not the node's own, or an empty text."""
    tran, name = disk.get("tran") or "", disk["name"]
    if devices.get("container") and not devices.get("fake_drives"):
        return f"inside a container ({devices['container']}) the visible disks are its host's"
    if tran in FABRICS:
        return f"it is reached by {FABRICS[tran]}: its storage server's, not the node's"
    if name.startswith("nvme") and (fabric := _transport(name, devices)) not in ("pcie", ""):
        return f"it is reached by NVMe over {fabric}: its storage server's, not the node's"
    if disk["type"] != "disk" or NETWORK_NAMES.match(name):
        return f"it is not a drive of its own ({disk['type']})"
    if tran == "virtio" or name.startswith(("vd", "xvd")):
        return "it is a virtual machine's: its provider erases it"
    if tran == "usb" or _is_true(disk.get("rm")):
        return "it can be pulled out: take it out, or wipe it where it belongs"
    return ""


def _transport(name: str, devices: Mapping[str, Any]) -> str:
    return str(devices.get("controllers", {}).get(nvme_controller_name(name), {}).get("transport") or "")


def nvme_controller_name(namespace_name: str) -> str:
    """Return an NVMe namespace's controller as its name says: nvme0n1 is of nvme0."""
    return re.sub(r"n\d+$", "", namespace_name)


def _keep_reason(disk: Mapping[str, Any], devices: Mapping[str, Any]) -> str:
    """Return why a local disk can't be wiped from here, or an empty text."""
    mounts = sorted(set(_mounts(disk)))
    system = [mount for mount in mounts if mount in SYSTEM_MOUNTS]
    if system:
        return f"the running system is on it ({', '.join(system)}): boot the node from elsewhere"
    if devices.get("root") in {part["path"] for part in _walk(disk) if part.get("path")}:
        return f"the running system's root {devices['root']} is on it: boot the node from elsewhere"
    if _is_true(disk.get("ro")):
        return "it is write-protected"
    if not _text(disk.get("serial")):
        return "it reports no serial, so it can't be told apart from another"
    if not disk.get("size"):
        return "its size is 0: it does not answer"
    if pool := next((POOLS[p["fstype"]] for p in _walk(disk) if p.get("fstype") in POOLS), None):
        return f"it belongs to {pool}: take it out of that first"
    unknown_types = {part["type"] for part in _walk(disk)} - {"disk", "part", "lvm", "crypt"}
    if unsupported_types := sorted(kind for kind in unknown_types if not kind.startswith("raid")):
        return f"it is part of {', '.join(unsupported_types)}, which we do not know how to stop"
    return ""


def _walk(disk: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield disk
    for child in disk.get("children") or ():
        yield from _walk(child)


def _mounts(disk: Mapping[str, Any]) -> Iterator[str]:
    for part in _walk(disk):
        yield from (mount for mount in part.get("mountpoints") or () if mount)


def classify_disk_interface(disk: Mapping[str, Any]) -> str:
    """Return which of the table's kinds a disk is."""
    name = disk["name"]
    if name.startswith("mmcblk"):
        return "mmc"
    return "nvme" if name.startswith("nvme") else LOCAL.get(disk.get("tran") or "", "scsi")


def find_supported_wipe_features(
    disk: Mapping[str, Any], drive_report: Mapping[str, Any], method: str = "auto"
) -> set[str]:
    """Return what the disk can do, as it reports itself."""
    can = {"asked"} if method != "auto" else set()
    if int(disk.get("disc-max") or 0):
        can.add("discard")
    id_ctrl = (
        drive_report.get("controllers", {}).get(nvme_controller_name(disk["name"]), {}).get("id_ctrl") or {}
    )
    bits = {
        "format": ("oacs", 1),
        "format_crypto": ("fna", 2),
        "sanitize_crypto": ("sanicap", 0),
        "sanitize_block": ("sanicap", 1),
    }
    can |= {name for name, (key, bit) in bits.items() if int(id_ctrl.get(key) or 0) >> bit & 1}
    return can | _security(drive_report.get("hdparm", {}).get(disk["name"], ""))


def _security(text: str) -> set[str]:
    """Read the Security part of ``hdparm -I``: a frozen or locked drive refuses to be erased."""
    section = re.search(r"^Security:\s*$(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    security_lines = [" ".join(line.split()) for line in section[1].splitlines()] if section else []
    if (
        "supported" not in security_lines
        or "not frozen" not in security_lines
        or "not locked" not in security_lines
    ):
        return set()
    can = {"ata_erase"} if any("SECURITY ERASE UNIT" in line_text for line_text in security_lines) else set()
    return can | ({"ata_enhanced_erase"} if "supported: enhanced erase" in security_lines else set())


def _choose(kind: str, disk_can: set[str], method: str) -> Mapping[str, Any] | None:
    """Return the surest method that the drive can do, or the one that was asked for."""
    offered = [*load_wipe_methods()[kind], *load_wipe_methods()["any"]]
    usable_methods = [
        wipe_method
        for wipe_method in offered
        if disk_can.issuperset(wipe_method["needs"]) and method in ("auto", wipe_method["name"])
    ]
    return usable_methods[0] if usable_methods else None


def _drive(
    disk: Mapping[str, Any], devices: Mapping[str, Any], kind: str, wipe_method: Mapping[str, Any]
) -> DriveToWipe:
    path = disk.get("path") or f"/dev/{disk['name']}"
    placeholders = {"path": path, "controller": f"/dev/{nvme_controller_name(disk['name'])}"}

    def fill_placeholders(argv: Sequence[str]) -> list[str]:
        return [argument.format(**placeholders) for argument in argv]

    return DriveToWipe(
        path=path,
        by_id=devices.get("by_id", {}).get(path),
        model=_text(disk.get("model")) or "unknown",
        serial=_text(disk["serial"]),
        size=int(disk["size"]),
        kind=kind,
        method=wipe_method["name"],
        strength=wipe_method["strength"],
        tool=wipe_method["tool"],
        commands=[fill_placeholders(argv) for argv in wipe_method["commands"]],
        poll=fill_placeholders(wipe_method["poll"]) if wipe_method.get("poll") else None,
        zeroes=bool(wipe_method.get("zeroes")),
        unmount=sorted(set(_mounts(disk)) - {SWAP}, reverse=True),
        release=_releases(disk),
        whole_controller=_erases_controller(disk, devices, wipe_method),
    )


def _erases_controller(
    disk: Mapping[str, Any], devices: Mapping[str, Any], wipe_method: Mapping[str, Any]
) -> bool:
    """Return True if the method also erases the controller's other namespaces (fna bit 0: format does)."""
    id_ctrl = devices.get("controllers", {}).get(nvme_controller_name(disk["name"]), {}).get("id_ctrl") or {}
    formats_all = "format" in wipe_method["needs"] and bool(int(id_ctrl.get("fna") or 0) & 1)
    return bool(wipe_method.get("whole_controller")) or formats_all


def _releases(disk: Mapping[str, Any]) -> list[list[str]]:
    """Return what must be ended so that the drive is free, the innermost first and nothing twice."""
    commands: list[list[str]] = []
    for part in reversed(list(_walk(disk))):
        if SWAP in (part.get("mountpoints") or ()):
            commands.append(["swapoff", part["path"]])
        kind = "raid" if part["type"].startswith("raid") else part["type"]
        if argv := load_wipe_methods()["release"].get(kind):
            placeholders = {"path": part.get("path") or f"/dev/{part['name']}", "name": part["name"]}
            release_command = [argument.format(**placeholders) for argument in argv]
            commands += [release_command] if release_command not in commands else []
    return commands


def _refuse_shared_controllers(drives: list[DriveToWipe], refused: list[RefusedDrive]) -> WipePlan:
    """Refuse drives if wiping them would also erase a refused namespace of the same controller."""
    refused_controllers = {
        nvme_controller_name(refused_drive.path): refused_drive
        for refused_drive in refused
        if "/nvme" in refused_drive.path and refused_drive.is_local
    }
    accepted = [
        drive
        for drive in drives
        if not (drive.whole_controller and nvme_controller_name(drive.path) in refused_controllers)
    ]
    for drive in drives:
        if drive not in accepted:
            other = refused_controllers[nvme_controller_name(drive.path)].path
            reason = f"{drive.method} erases the whole controller, and {other} must stay"
            refused.append(RefusedDrive(drive.path, drive.serial, drive.size, reason, is_local=True))
    return WipePlan(tuple(accepted), tuple(refused))


def _text(value: object) -> str:
    return str(value).strip() if value is not None else ""


def _is_true(value: object) -> bool:
    return value in (True, "1", 1)

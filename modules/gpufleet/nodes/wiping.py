"""Which drives of a node are wiped how, and which are not and why: from what the node's own tools say. Pure.

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

from gpufleet.boundary import packaged_yaml
from gpufleet.errors import InputError
from gpufleet.nodes.wiping_report import check_drives

# Somebody's system lives here: a drive that carries one of these can't be wiped from the system that runs on it.
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
class Drive:
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
class Refused:
    """A drive that is left alone, with the reason; ``ours`` where it is the node's own and its content stays."""

    path: str
    serial: str | None
    size: int | None
    reason: str
    ours: bool


@dataclass(frozen=True)
class Plan:
    drives: tuple[Drive, ...]
    refused: tuple[Refused, ...]

    @property
    def id(self) -> str:
        """Return what this plan and no other is called: what was shown is what is confirmed."""
        told = [[d.path, d.serial, d.size, d.method, d.commands] for d in self.drives]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]

    @property
    def complete(self) -> bool:
        """Say whether nothing of the node's own is left unwiped."""
        return not any(refused.ours for refused in self.refused)

    def as_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "id": self.id,
            "complete": self.complete,
            "drives": [asdict(drive) for drive in self.drives],
            "refused": [asdict(one) for one in self.refused],
        }


@cache
def table() -> dict[str, Any]:
    """Return the methods and their sources."""
    found: dict[str, Any] = packaged_yaml("gpufleet.nodes", "data/wipe_methods.yaml")
    return found


def known_method(method: str) -> None:
    """Refuse a way to wipe that the table does not have."""
    known = sorted({one["name"] for kind, some in table().items() if kind != "release" for one in some})
    if method not in ("auto", *known):
        raise InputError(
            f"no way to wipe is called {method!r}", where="--method", remedy=f"auto, {', '.join(known)}"
        )


def plan(seen: Mapping[str, Any], method: str = "auto") -> Plan:
    """Return what would be wiped of what a node has told (``gpufleet.fleet.disks``)."""
    known_method(method)
    check_drives(seen)
    drives: list[Drive] = []
    refused: list[Refused] = []
    for disk in seen.get("lsblk", {}).get("blockdevices", []):
        if MEMORY_NAMES.match(disk["name"]):
            continue
        made = _judge(disk, seen, method)
        (drives if isinstance(made, Drive) else refused).append(made)  # type: ignore[arg-type]  # the lists differ by that very test
    return _siblings(drives, refused)


def _judge(disk: Mapping[str, Any], seen: Mapping[str, Any], method: str) -> Drive | Refused:
    """Say for one whole disk how it is wiped, or why it is not."""
    if why := _foreign(disk, seen):
        return _refuse(disk, why, ours=False)
    if why := _needed(disk, seen):
        return _refuse(disk, why, ours=True)
    kind = kind_of(disk)
    able = abilities(disk, seen, asked=method)
    chosen = _choose(kind, able, method)
    if chosen is None:
        return _refuse(disk, f"it can't be wiped by {method}", ours=True)
    return _drive(disk, seen, kind, chosen)


def _refuse(disk: Mapping[str, Any], reason: str, *, ours: bool) -> Refused:
    size = int(disk["size"]) if disk.get("size") is not None else None
    return Refused(
        disk.get("path") or f"/dev/{disk['name']}", _text(disk.get("serial")) or None, size, reason, ours
    )


def _foreign(disk: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Say why a disk is not the node's own, or nothing."""
    tran, name = disk.get("tran") or "", disk["name"]
    if seen.get("container") and not seen.get("stand_in"):
        return f"inside a container ({seen['container']}) the disks to be seen are its host's"
    if tran in FABRICS:
        return f"it is reached by {FABRICS[tran]}: its storage server's, not the node's"
    if name.startswith("nvme") and (fabric := _transport(name, seen)) not in ("pcie", ""):
        return f"it is reached by NVMe over {fabric}: its storage server's, not the node's"
    if disk["type"] != "disk" or NETWORK_NAMES.match(name):
        return f"it is no drive of its own ({disk['type']})"
    if tran == "virtio" or name.startswith(("vd", "xvd")):
        return "it is a virtual machine's: who rents it out erases it"
    if tran == "usb" or _true(disk.get("rm")):
        return "it can be pulled out: take it out, or wipe it where it belongs"
    return ""


def _transport(name: str, seen: Mapping[str, Any]) -> str:
    return str(seen.get("controllers", {}).get(controller_of(name), {}).get("transport") or "")


def controller_of(name: str) -> str:
    """Return an NVMe namespace's controller as its name says: nvme0n1 is of nvme0."""
    return re.sub(r"n\d+$", "", name)


def _needed(disk: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    """Say why a disk of the node's own can't be wiped from here, or nothing."""
    mounts = sorted(set(_mounts(disk)))
    system = [mount for mount in mounts if mount in SYSTEM_MOUNTS]
    if system:
        return f"the running system lives on it ({', '.join(system)}): boot the node from elsewhere"
    if seen.get("root") in {part["path"] for part in _tree(disk) if part.get("path")}:
        return f"the running system's root {seen['root']} is on it: boot the node from elsewhere"
    if _true(disk.get("ro")):
        return "it is write-protected"
    if not _text(disk.get("serial")):
        return "it tells no serial, so it can't be told apart from another"
    if not disk.get("size"):
        return "its size is 0: it does not answer"
    if pool := next((POOLS[p["fstype"]] for p in _tree(disk) if p.get("fstype") in POOLS), None):
        return f"it belongs to {pool}: take it out of that first"
    unknown = {part["type"] for part in _tree(disk)} - {"disk", "part", "lvm", "crypt"}
    if odd := sorted(kind for kind in unknown if not kind.startswith("raid")):
        return f"it is part of {', '.join(odd)}, which we do not know how to end"
    return ""


def _tree(disk: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield disk
    for child in disk.get("children") or ():
        yield from _tree(child)


def _mounts(disk: Mapping[str, Any]) -> Iterator[str]:
    for part in _tree(disk):
        yield from (mount for mount in part.get("mountpoints") or () if mount)


def kind_of(disk: Mapping[str, Any]) -> str:
    """Return which of the table's kinds a disk is."""
    name = disk["name"]
    if name.startswith("mmcblk"):
        return "mmc"
    return "nvme" if name.startswith("nvme") else LOCAL.get(disk.get("tran") or "", "scsi")


def abilities(disk: Mapping[str, Any], seen: Mapping[str, Any], asked: str = "auto") -> set[str]:
    """Return what the disk can do, as it says itself."""
    can = {"asked"} if asked != "auto" else set()
    if int(disk.get("disc-max") or 0):
        can.add("discard")
    told = seen.get("controllers", {}).get(controller_of(disk["name"]), {}).get("id_ctrl") or {}
    bits = {
        "format": ("oacs", 1),
        "format_crypto": ("fna", 2),
        "sanitize_crypto": ("sanicap", 0),
        "sanitize_block": ("sanicap", 1),
    }
    can |= {name for name, (key, bit) in bits.items() if int(told.get(key) or 0) >> bit & 1}
    return can | _security(seen.get("hdparm", {}).get(disk["name"], ""))


def _security(text: str) -> set[str]:
    """Read the Security part of ``hdparm -I``: a frozen or locked drive refuses to be erased."""
    found = re.search(r"^Security:\s*$(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    words = [" ".join(line.split()) for line in found[1].splitlines()] if found else []
    if "supported" not in words or "not frozen" not in words or "not locked" not in words:
        return set()
    can = {"ata_erase"} if any("SECURITY ERASE UNIT" in word for word in words) else set()
    return can | ({"ata_enhanced_erase"} if "supported: enhanced erase" in words else set())


def _choose(kind: str, able: set[str], method: str) -> Mapping[str, Any] | None:
    """Return the surest method that the drive can do, or the one that was asked for."""
    offered = [*table()[kind], *table()["any"]]
    fitting = [one for one in offered if able.issuperset(one["needs"]) and method in ("auto", one["name"])]
    return fitting[0] if fitting else None


def _drive(disk: Mapping[str, Any], seen: Mapping[str, Any], kind: str, chosen: Mapping[str, Any]) -> Drive:
    path = disk.get("path") or f"/dev/{disk['name']}"
    words = {"path": path, "controller": f"/dev/{controller_of(disk['name'])}"}

    def filled(argv: Sequence[str]) -> list[str]:
        return [word.format(**words) for word in argv]

    return Drive(
        path=path,
        by_id=seen.get("by_id", {}).get(path),
        model=_text(disk.get("model")) or "unknown",
        serial=_text(disk["serial"]),
        size=int(disk["size"]),
        kind=kind,
        method=chosen["name"],
        strength=chosen["strength"],
        tool=chosen["tool"],
        commands=[filled(argv) for argv in chosen["commands"]],
        poll=filled(chosen["poll"]) if chosen.get("poll") else None,
        zeroes=bool(chosen.get("zeroes")),
        unmount=sorted(set(_mounts(disk)) - {SWAP}, reverse=True),
        release=_releases(disk),
        whole_controller=_takes_all(disk, seen, chosen),
    )


def _takes_all(disk: Mapping[str, Any], seen: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    """Say whether the method also erases the controller's other namespaces (fna bit 0: format does)."""
    told = seen.get("controllers", {}).get(controller_of(disk["name"]), {}).get("id_ctrl") or {}
    formats_all = "format" in chosen["needs"] and bool(int(told.get("fna") or 0) & 1)
    return bool(chosen.get("whole_controller")) or formats_all


def _releases(disk: Mapping[str, Any]) -> list[list[str]]:
    """Return what must be ended so that the drive is free, the innermost first and nothing twice."""
    found: list[list[str]] = []
    for part in reversed(list(_tree(disk))):
        if SWAP in (part.get("mountpoints") or ()):
            found.append(["swapoff", part["path"]])
        kind = "raid" if part["type"].startswith("raid") else part["type"]
        if argv := table()["release"].get(kind):
            words = {"path": part.get("path") or f"/dev/{part['name']}", "name": part["name"]}
            one = [word.format(**words) for word in argv]
            found += [one] if one not in found else []
    return found


def _siblings(drives: list[Drive], refused: list[Refused]) -> Plan:
    """Refuse drives whose wiping would take a refused namespace of the same controller with it."""
    kept = {controller_of(one.path): one for one in refused if "/nvme" in one.path and one.ours}
    good = [drive for drive in drives if not (drive.whole_controller and controller_of(drive.path) in kept)]
    for drive in drives:
        if drive not in good:
            other = kept[controller_of(drive.path)].path
            why = f"{drive.method} erases the whole controller, and {other} must stay"
            refused.append(Refused(drive.path, drive.serial, drive.size, why, ours=True))
    return Plan(tuple(good), tuple(refused))


def _text(value: object) -> str:
    return str(value).strip() if value is not None else ""


def _true(value: object) -> bool:
    return value in (True, "1", 1)

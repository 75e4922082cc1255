"""A fake drive for a rehearsed host: a file, and fake wipe tools that really overwrite this file with zeros.

A container sees its controller's drives in sysfs, so a wipe must never read them there. In a rehearsal roles use
this folder instead: ``lsblk.json`` in the format of ``lsblk --json --bytes`` (util-linux 2.38), ``id-ctrl.json`` in
that of ``nvme id-ctrl -o json``, and ``bin/`` with the fake tools.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

SIZE_BYTES = 2**20
TOOLS = ("lsblk", "nvme", "blkdiscard")
BLOCK_BYTES = 4096


def write_fake_drive(folder: Path, serial: str) -> None:
    """Write the drive and its tools; the drive is full of text that a wipe must remove."""
    folder.mkdir(parents=True, exist_ok=True)
    drive = folder / "nvme0n1"
    line = f"somebody's data on {serial}\n".encode()
    drive.write_bytes((line * (BLOCK_BYTES // len(line) + 1))[:BLOCK_BYTES] * (SIZE_BYTES // BLOCK_BYTES))
    fake_serial = f"FAKE{serial[-8:].upper()}"
    (folder / "lsblk.json").write_text(json.dumps(_lsblk(drive.name, fake_serial), indent=1) + "\n")
    (folder / "id-ctrl.json").write_text(json.dumps(_id_ctrl(fake_serial), indent=1) + "\n")
    data = resources.files("gpufleet.rehearsal") / "data"
    (folder / "bin").mkdir(exist_ok=True)
    for tool in TOOLS:
        path = folder / "bin" / tool
        path.write_text((data / f"disk-{tool}.sh").read_text())
        path.chmod(0o755)


def _lsblk(name: str, serial: str) -> dict[str, list[dict[str, object]]]:
    drive = {
        "name": name,
        "path": f"/dev/{name}",
        "type": "disk",
        "size": SIZE_BYTES,
        "model": "FAKE NVMe (a file)",
        "serial": serial,
        "tran": "nvme",
        "rota": False,
        "rm": False,
        "ro": False,
        "disc-max": 2**31,
        "mountpoints": [None],
    }
    return {"blockdevices": [drive]}


def _id_ctrl(serial: str) -> dict[str, object]:
    """Return a controller that supports Format NVM (oacs bit 1) with crypto erase (fna bit 2) and no sanitize."""
    return {"sn": serial, "mn": "FAKE NVMe (a file)", "oacs": 0x17, "fna": 4, "sanicap": 0, "nn": 1}

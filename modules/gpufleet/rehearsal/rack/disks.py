"""A drive for a rehearsed host: a file, and the tools that a wipe uses, which really zero that file.

A container sees its controller's drives in sysfs; so nothing that wipes may ever look there. Roles in a rehearsal
look into this folder instead: ``lsblk.json`` in the shape of ``lsblk --json --bytes`` (util-linux 2.38),
``id-ctrl.json`` in that of ``nvme id-ctrl -o json``, and ``bin/`` with tools marked as stand-ins.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

SIZE = 2**20
TOOLS = ("lsblk", "nvme", "blkdiscard")
BLOCK = 4096


def lay(folder: Path, serial: str) -> None:
    """Lay the drive and its tools; the drive begins full of a text that a wipe must remove."""
    folder.mkdir(parents=True, exist_ok=True)
    drive = folder / "nvme0n1"
    line = f"somebody's data on {serial}\n".encode()
    drive.write_bytes((line * (BLOCK // len(line) + 1))[:BLOCK] * (SIZE // BLOCK))
    own = f"STANDIN{serial[-8:].upper()}"
    (folder / "lsblk.json").write_text(json.dumps(_lsblk(drive.name, own), indent=1) + "\n")
    (folder / "id-ctrl.json").write_text(json.dumps(_id_ctrl(own), indent=1) + "\n")
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
        "size": SIZE,
        "model": "STAND-IN NVMe (a file)",
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
    """Return a controller that knows Format NVM (oacs bit 1) with crypto erase (fna bit 2) and no sanitize."""
    return {"sn": serial, "mn": "STAND-IN NVMe (a file)", "oacs": 0x17, "fna": 4, "sanicap": 0, "nn": 1}

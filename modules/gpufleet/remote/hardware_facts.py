"""What a probe asks a node about its hardware, and how the answers are read. Pure.

Sizes come from the kernel's own files, which every Linux has; only the serials and memory of NVIDIA cards need a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

MAX_DEVICES = 64
"""Cards, drives or network cards of one node: a longer list is not a node's."""
MAX_TEXT = 120
SECTOR_BYTES = 512
NVIDIA_FIELDS = ("name", "uuid", "serial", "pci.bus_id", "memory.total", "vbios_version")
PCI_CLASSES = "0x03*|0x12*|0x02*"  # display, processing accelerators, network

FILES = {"nvidia_driver": "/sys/module/nvidia/version", "amdgpu_driver": "/sys/module/amdgpu/version"}
COMMANDS = {
    "cpus": "grep -c ^processor /proc/cpuinfo",
    "cpu_model": "grep -m1 '^model name' /proc/cpuinfo",
    "memory": "grep -m1 MemTotal /proc/meminfo",
    "booted": "grep btime /proc/stat",
    # ``read`` is part of the shell: a server has hundreds of functions.
    "pci": (
        "cd /sys/bus/pci/devices && for d in *; do read -r c < $d/class; case $c in "
        f"{PCI_CLASSES}) for f in vendor device subsystem_vendor subsystem_device; do read -r v < $d/$f; "
        'c="$c $v"; done; echo "$d $c";; esac; done'
    ),
    "drives": (
        "cd /sys/block && for d in *; do [ -e $d/device ] || continue; s= m=; "
        'read -r s < $d/size; [ -e $d/device/model ] && read -r m < $d/device/model; echo "$d $s $m"; done'
    ),
    # A card that hangs must not hold up the answers of the others.
    "nvidia_cards": (
        "command -v nvidia-smi && timeout 20 nvidia-smi --format=csv,noheader,nounits "
        f"--query-gpu={','.join(NVIDIA_FIELDS)}"
    ),
}

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HEX = re.compile(r"0x[0-9a-f]{4,6}")
_VERSION = re.compile(r"[0-9A-Za-z.+~_-]{1,64}")


@dataclass(frozen=True)
class HardwareFacts:
    """Hardware of a node, as its kernel shows it; None or empty where it was not reported.

    ``memory_gib`` is what the kernel has to give away, less than what is plugged in. ``pci`` holds display, processing
    and network functions as ``{"address", "class", "id", "subsystem"}``, ``drives`` ``{"name", "gib", "model"}``,
    ``nvidia_cards`` ``{"name", "uuid", "serial", "bus", "memory_mib", "vbios"}``. ``booted_at`` is in seconds of Unix.
    """

    cpus: int | None = None
    cpu_model: str = ""
    memory_gib: float | None = None
    pci: tuple[dict[str, str], ...] = ()
    drives: tuple[dict[str, Any], ...] = ()
    nvidia_cards: tuple[dict[str, Any], ...] = ()
    nvidia_driver: str = ""
    amdgpu_driver: str = ""
    booted_at: int | None = None

    def list_reported_values(self) -> dict[str, Any]:
        """Return what was reported, by its key in the registry."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in values.items()
            if value not in (None, "", ())
        }


def parse_hardware_facts(answers: Mapping[str, str]) -> HardwareFacts:
    """Read the answers to ``COMMANDS`` and ``FILES``; what is not as the kernel writes it was not reported."""
    memory_kib = _read_integer(answers.get("memory", "").removeprefix("MemTotal:").removesuffix("kB"))
    return HardwareFacts(
        cpus=_read_integer(answers.get("cpus", "")) or None,
        cpu_model=answers.get("cpu_model", "").partition(":")[2][:MAX_TEXT].strip(),
        memory_gib=round(memory_kib / 1024**2, 1) if memory_kib else None,
        pci=tuple(_list_pci_functions(answers.get("pci", ""))),
        drives=tuple(_list_drives(answers.get("drives", ""))),
        nvidia_cards=tuple(_list_nvidia_cards(answers.get("nvidia_cards", ""))),
        nvidia_driver=_read_version(answers.get("nvidia_driver", "")),
        amdgpu_driver=_read_version(answers.get("amdgpu_driver", "")),
        booted_at=_read_integer(answers.get("booted", "").removeprefix("btime")),
    )


def _list_pci_functions(text: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines()[:MAX_DEVICES]:
        address, *codes = line.split()
        if _PCI.fullmatch(address) and len(codes) in (3, 5) and all(map(_HEX.fullmatch, codes)):
            kind, vendor, device, *subsystem = (code[2:] for code in codes)
            yield {
                "address": address,
                "class": kind,
                "id": f"{vendor}:{device}",
                "subsystem": ":".join(subsystem),
            }


def _list_drives(text: str) -> Iterator[dict[str, Any]]:
    """Yield the drives with a size: an empty card reader has none."""
    for line in text.splitlines()[:MAX_DEVICES]:
        name, size, model = [*line.split(maxsplit=2), "", "", ""][:3]
        sectors = _read_integer(size)
        if sectors and name.isalnum():
            gib = round(sectors * SECTOR_BYTES / 1024**3, 1)
            yield {"name": name, "gib": gib, "model": model.strip()[:MAX_TEXT]}


def _list_nvidia_cards(text: str) -> Iterator[dict[str, Any]]:
    """Yield the cards of ``nvidia-smi``'s CSV, whose cells have no commas; the first line is the tool's path."""
    keys = ("name", "uuid", "serial", "bus", "memory_mib", "vbios")
    for line in text.splitlines()[: MAX_DEVICES + 1]:
        cells = [cell.strip()[:MAX_TEXT] for cell in line.split(",")]
        if len(cells) == len(keys):
            card = {
                key: cell for key, cell in zip(keys, cells, strict=True) if cell and not cell.startswith("[")
            }
            memory = _read_integer(card.pop("memory_mib", ""))
            yield {**card, "memory_mib": memory} if memory else dict(card)


def _read_integer(text: str) -> int | None:
    cleaned = text.strip()
    return int(cleaned) if cleaned.isascii() and cleaned.isdecimal() and len(cleaned) < 16 else None  # noqa: PLR2004


def _read_version(text: str) -> str:
    return text if _VERSION.fullmatch(text) else ""

"""A graphics card as the kernel's own files show it: who uses it, sensors, error counters and the PCIe link.

Names as in the kernel's documentation: drm-usage-stats (fdinfo), amdgpu's hwmon and RAS files. No tool is needed.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from .host import HostAccess

WATCH_SECONDS = 0.5
# A display server keeps frame buffers on its card; a loaded model is larger.
USED_BYTES = 256 << 20
BUSY_PERCENT = 20
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
BRIDGE_CLASS = "0x0604"
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
# Blocks of the GPU with their error counts; newer drivers name them aca_….
RAS_COUNTS = re.compile(r"\w+_err_count|aca_\w+")


def parse_usage(text: str) -> dict[str, str]:
    """Return the keys of one file of ``/proc/PID/fdinfo``."""
    pairs = (line.split(":", 1) for line in text.splitlines() if line.startswith("drm-") and ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def count_bytes(usage: dict[str, str]) -> int:
    """Return the memory of its own that a client holds on the card."""
    total = 0
    for name in ("drm-memory-vram", "drm-total-vram0", "drm-total-local0"):
        match = re.fullmatch(r"(\d+)\s*(\w*)", usage.get(name, ""))
        total = max(total, int(match[1]) * UNITS.get(match[2], 1) if match else 0)
    return total


def count_busy_ns(usage: dict[str, str]) -> int:
    """Return how long a client has used the card's engines."""
    texts = (
        value for name, value in usage.items() if name.startswith("drm-engine-") and value.endswith("ns")
    )
    return sum(int(text.split()[0]) for text in texts if text.split()[0].isdigit())


def list_clients(host: HostAccess, bus_id: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return what each open file of a card's users says, by process and client."""
    clients: dict[tuple[str, str], dict[str, str]] = {}
    others = (pid for pid in host.list_folder("/proc") if pid.isdigit() and int(pid) != os.getpid())
    for pid in others:
        for number in host.list_folder(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(host.resolve_path(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115 - Python 3.9
            except OSError:
                continue
            if target.startswith("/dev/dri/"):
                usage = parse_usage(host.read_text_file(f"/proc/{pid}/fdinfo/{number}") or "")
                if usage.get("drm-pdev") == bus_id:
                    clients[pid, usage.get("drm-client-id", number)] = usage
    return clients


def explain_use(host: HostAccess, bus_id: str, wait_s: float = WATCH_SECONDS) -> str:
    """Return who uses a card now, or nothing."""
    rocm = [pid for pid in host.list_folder("/sys/class/kfd/kfd/proc") if holds_rocm_memory(host, pid)]
    if rocm:
        return f"process {rocm[0]} uses ROCm"
    before = list_clients(host, bus_id)
    percents = [host.read_integer_file(f"/sys/bus/pci/devices/{bus_id}/gpu_busy_percent")]
    time.sleep(wait_s)
    percents.append(host.read_integer_file(f"/sys/bus/pci/devices/{bus_id}/gpu_busy_percent"))
    for key, usage in list_clients(host, bus_id).items():
        if count_bytes(usage) >= USED_BYTES:
            return f"process {key[0]} holds {count_bytes(usage) >> 20} MiB of the GPU's memory"
        if key in before and count_busy_ns(usage) > count_busy_ns(before[key]) + BUSY_PERCENT * wait_s * 1e7:
            return f"process {key[0]} uses the GPU"
    known = [percent for percent in percents if percent is not None]
    if known and min(known) >= BUSY_PERCENT:
        return f"the GPU is {min(known)} % busy"
    return ""


def holds_rocm_memory(host: HostAccess, pid: str) -> bool:
    """Return whether a ROCm process holds memory of a GPU."""
    folder = f"/sys/class/kfd/kfd/proc/{pid}"
    return any(
        host.read_integer_file(f"{folder}/{name}")
        for name in host.list_folder(folder)
        if name.startswith("vram_")
    )


def parse_generation(text: str | None) -> int | None:
    """Return PCIe's generation of a link speed such as ``16.0 GT/s PCIe``."""
    return GENERATIONS.get((text or "").split(" ")[0])


class CardSensors:
    """Sensors and counters of one card; what its driver does not have is None."""

    def __init__(self, host: HostAccess, bus_id: str) -> None:
        self.host = host
        self.folder = f"/sys/bus/pci/devices/{bus_id}"
        monitors = host.list_folder(f"{self.folder}/hwmon")
        self.monitor = f"{self.folder}/hwmon/{monitors[0]}" if monitors else ""
        self.temperatures = {
            host.read_text_file(f"{self.monitor}/temp{number}_label")
            or "edge": f"{self.monitor}/temp{number}"
            for number in (1, 2, 3)
            if self.monitor and host.read_integer_file(f"{self.monitor}/temp{number}_input") is not None
        }
        self.link = self._find_outer_port()

    def _find_outer_port(self) -> str:
        """Return the device at the slot: AMD's cards have a switch of their own, and links inside say nothing."""
        root, card = Path(self.host.root).resolve(), self.host.resolve_path(self.folder).resolve()
        if not card.is_relative_to(root):
            return self.folder
        vendor, outer = self._read(card, "vendor"), card
        while self._read(outer.parent, "vendor") == vendor and self._read(outer.parent, "class").startswith(
            BRIDGE_CLASS
        ):
            outer = outer.parent
        return f"/{outer.relative_to(root)}"

    @staticmethod
    def _read(folder: Path, name: str) -> str:
        try:
            return (folder / name).read_text().strip()
        except OSError:
            return ""

    def _read_scaled(self, name: str, divisor: int) -> int | None:
        value = self.host.read_integer_file(f"{self.monitor}/{name}") if self.monitor else None
        return None if value is None else value // divisor

    def _read_celsius(self, label: str) -> int | None:
        path = self.temperatures.get(label)
        value = self.host.read_integer_file(f"{path}_input") if path else None
        return None if value is None else value // 1000

    def read_margin(self) -> int | None:
        """Return the degrees to the lowest critical temperature of the card's own."""
        margins = []
        for path in self.temperatures.values():
            now, critical = (self.host.read_integer_file(f"{path}_{name}") for name in ("input", "crit"))
            if now is not None and critical:
                margins.append((critical - now) // 1000)
        return min(margins, default=None)

    def read_link(self) -> dict[str, str | None]:
        """Return the files of the link between card and slot."""
        return {name: self.host.read_text_file(f"{self.link}/{name}") for name in LINK_FILES}

    def read_sample(self) -> list[int | None]:
        """Return one reading of every column of a series."""
        power = self._read_scaled("power1_average", 1000)
        instant = self._read_scaled("power1_input", 1000)
        lanes = self.host.read_integer_file(f"{self.link}/current_link_width")
        return [
            self._read_scaled("freq1_input", 1_000_000),
            self._read_scaled("freq2_input", 1_000_000),
            instant if power is None else power,
            instant,
            self._read_celsius("edge"),
            self._read_celsius("mem"),
            self.read_margin(),
            None,
            parse_generation(self.host.read_text_file(f"{self.link}/current_link_speed")),
            lanes,
        ]

    def read_errors(self) -> dict[str, int | None]:
        """Return amdgpu's RAS counters, added up over the card's blocks; None for a card without them."""
        folder, totals = f"{self.folder}/ras", dict[str, int]()
        for name in self.host.list_folder(folder):
            if RAS_COUNTS.fullmatch(name):
                text = self.host.read_text_file(f"{folder}/{name}") or ""
                for kind, count in re.findall(r"^(ue|ce): (\d+)$", text, flags=re.MULTILINE):
                    totals[kind] = totals.get(kind, 0) + int(count)
        return {"ecc_uncorrected": totals.get("ue"), "ecc_corrected": totals.get("ce")}

    def describe_slot(self) -> dict[str, Any]:
        """Return what card and port can do at most, as ``gpu_copy`` records it."""
        folder = self.host.resolve_path(self.link).resolve()
        root = Path(self.host.root).resolve()
        port = f"/{folder.parent.relative_to(root)}" if folder.is_relative_to(root) else ""
        return {
            "card": self.read_link(),
            "port": {
                name: self.host.read_text_file(f"{port}/{name}") if port else None for name in LINK_FILES
            },
        }

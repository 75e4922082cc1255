# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a host: what each reports about its power limit, clocks and modes, and how to set them.

NVIDIA: nvidia-smi(1), 565.57. AMD: the files of the kernel's amdgpu (docs.kernel.org/gpu/amdgpu/thermal.html, read
2026-11-23), which amd-smi and rocm-smi write too. Standard library only: a unit of systemd runs a copy of this file.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSFS = Path("/sys")
SECONDS = 120
NVIDIA_SETTINGS = (
    "power_limit",
    "graphics_clocks",
    "memory_clocks",
    "application_clocks",
    "compute_mode",
    "ecc",
)
AMD_SETTINGS = ("power_limit", "performance_level")
SETTINGS = {"nvidia": NVIDIA_SETTINGS, "amd": AMD_SETTINGS}
UNREADABLE = ("graphics_clocks", "memory_clocks")
COMPUTE_MODES = {"default": "0", "exclusive_process": "3", "prohibited": "2"}
SET_OPTIONS = {
    "power_limit": "-pl",
    "graphics_clocks": "-lgc",
    "memory_clocks": "-lmc",
    "application_clocks": "-ac",
    "compute_mode": "-c",
    "ecc": "-e",
}
RESET_OPTIONS = {"graphics_clocks": "-rgc", "memory_clocks": "-rmc", "application_clocks": "-rac"}
# The driver answers nothing: it is not loaded, or nvidia-smi is of another version than the module.
NO_ANSWER = re.compile(
    r"communicate with the NVIDIA driver|Failed to initialize NVML|No devices were found|No such file"
)
REFUSED = re.compile(r"not supported|not a valid field|deprecated", re.IGNORECASE)


class GpuSettingsError(Exception):
    """A setting that cannot be made; its text names cards, value and range."""


class NoAnswerError(Exception):
    """No GPU answers; the settings are applied when the driver is loaded."""


@dataclass
class Card:
    """A GPU: what it reports now, what it can do, and why a setting is not there for it."""

    index: int
    id: str
    name: str
    current: dict[str, Any] = field(default_factory=dict)
    default: dict[str, Any] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    power_range: tuple[float, float] = (0, 0)
    clock_pairs: list[tuple[int, int]] = field(default_factory=list)  # memory, graphics
    is_ecc_pending: bool = False
    path: Path = SYSFS


def run_nvidia_smi(*arguments: str) -> tuple[int, str]:
    """Return exit status and output of nvidia-smi; raise NoAnswerError if it reaches no GPU."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswerError(f"nvidia-smi: {error}") from None
    output = (done.stdout + done.stderr).strip()
    if done.returncode and NO_ANSWER.search(output):
        raise NoAnswerError(f"nvidia-smi: {' '.join(output.split())[:200]}")
    return done.returncode, output


def query_nvidia(fields: list[str], query: str = "gpu") -> list[list[str]]:
    """Return the rows of a query of nvidia-smi."""
    status, output = run_nvidia_smi(f"--query-{query}={','.join(fields)}", "--format=csv,noheader,nounits")
    if status:
        raise GpuSettingsError(f"nvidia-smi --query-{query}: {' '.join(output.split())[:200]}")
    return [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.strip()]


def parse_numbers(card: Card, setting: str, cells: list[str], remedy: str = "") -> list[float]:
    """Return the numbers of a row; none if one is an answer such as ``[N/A]``, which the card then remembers."""
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        answer = next(cell for cell in cells if not re.fullmatch(r"[\d.]+", cell))
        card.unsupported[setting] = f"nvidia-smi: {answer}{remedy}"
        return []


def read_nvidia_cards(keys: set[str]) -> list[Card]:
    """Return the cards with the state of these settings."""
    cards = [Card(int(index), uuid, name) for index, uuid, name in query_nvidia(["index", "uuid", "name"])]
    if "power_limit" in keys:
        rows = query_nvidia(["power.limit", "power.default_limit", "power.min_limit", "power.max_limit"])
        for card, row in zip(cards, rows):
            limits = parse_numbers(card, "power_limit", row)
            if limits:
                card.current["power_limit"], card.default["power_limit"] = round(limits[0]), round(limits[1])
                card.power_range = (limits[2], limits[3])
    if "compute_mode" in keys:
        for card, (mode,) in zip(cards, query_nvidia(["compute_mode"])):
            read_nvidia_mode(card, "compute_mode", mode.lower(), tuple(COMPUTE_MODES))
            card.default["compute_mode"] = "default"
    if "ecc" in keys:
        for card, (now, later) in zip(cards, query_nvidia(["ecc.mode.current", "ecc.mode.pending"])):
            read_nvidia_mode(card, "ecc", later, ("Enabled", "Disabled"))
            if "ecc" in card.current:
                card.current["ecc"] = later == "Enabled"
                card.is_ecc_pending = now != later
    if "application_clocks" in keys:
        read_application_clocks(cards)
    if keys & {"graphics_clocks", "memory_clocks", "application_clocks"}:
        read_supported_clocks(cards)
    return cards


def read_nvidia_mode(card: Card, setting: str, value: str, known: tuple[str, ...]) -> None:
    if value in known:
        card.current[setting] = value
    else:
        card.unsupported[setting] = f"nvidia-smi: {value}"


def read_application_clocks(cards: list[Card]) -> None:
    """Read the clocks that newer drivers no longer have."""
    names = ["applications.memory", "applications.graphics"]
    names += [f"default_{name}" for name in names]
    try:
        rows = query_nvidia([f"clocks.{name}" for name in names])
    except GpuSettingsError as error:
        rows = [[str(error)]] * len(cards)
    for card, row in zip(cards, rows):
        clocks = [
            round(number)
            for number in parse_numbers(card, "application_clocks", row, "; use graphics_clocks")
        ]
        if clocks:
            card.current["application_clocks"], card.default["application_clocks"] = clocks[:2], clocks[2:]


def read_supported_clocks(cards: list[Card]) -> None:
    """Read the pairs of memory and graphics clocks of each card."""
    status, output = run_nvidia_smi(
        "--query-supported-clocks=gpu_uuid,memory,graphics", "--format=csv,noheader,nounits"
    )
    pairs: dict[str, list[tuple[int, int]]] = {}
    for line in output.splitlines() if not status else []:
        uuid, memory, graphics = (cell.strip() for cell in line.split(","))
        if memory.isdigit() and graphics.isdigit():
            pairs.setdefault(uuid, []).append((int(memory), int(graphics)))
    for card in cards:
        card.clock_pairs = pairs.get(card.id, [])
        if not card.clock_pairs:
            reason = "nvidia-smi lists no supported clocks"
            for setting in ("graphics_clocks", "memory_clocks", "application_clocks"):
                card.unsupported.setdefault(setting, reason)


def read_amd_cards(keys: set[str], sysfs: Path = SYSFS) -> list[Card]:
    """Return the cards of amdgpu in the order of their PCI addresses."""
    devices = {
        (path / "device").resolve()
        for path in (sysfs / "class/drm").glob("card*")
        if re.fullmatch(r"card\d+", path.name)
        and (path / "device/vendor").is_file()
        and (path / "device/vendor").read_text(encoding="ascii").strip() == "0x1002"
    }
    if not devices:
        raise NoAnswerError("no card of amdgpu is in /sys/class/drm")
    cards = []
    for index, device in enumerate(sorted(devices)):
        card = Card(index, device.name, f"AMD {device.name}", path=device)
        if "power_limit" in keys:
            read_amd_power(card)
        if "performance_level" in keys:
            level = device / "power_dpm_force_performance_level"
            card.default["performance_level"] = "auto"
            if level.is_file():
                card.current["performance_level"] = level.read_text(encoding="ascii").strip()
            else:
                card.unsupported["performance_level"] = f"no {level.name}"
        cards.append(card)
    return cards


def read_amd_power(card: Card) -> None:
    """Read the power cap (microwatts in sysfs)."""
    folder = next((file.parent for file in sorted(card.path.glob("hwmon/hwmon*/power1_cap"))), None)
    try:
        if folder is None:
            raise FileNotFoundError("no power1_cap")
        names = ("power1_cap", "power1_cap_default", "power1_cap_min", "power1_cap_max")
        values = [int((folder / name).read_text(encoding="ascii")) / 1_000_000 for name in names]
    except (OSError, ValueError) as error:
        card.unsupported["power_limit"] = f"amdgpu: {getattr(error, 'strerror', None) or error}"
        return
    card.current["power_limit"], card.default["power_limit"] = round(values[0]), round(values[1])
    card.power_range = (values[2], values[3])


@dataclass
class Change:
    """One setting of one card. A silent change sets again what no tool can read."""

    card: Card
    setting: str
    before: Any
    after: Any
    is_restored: bool = False
    is_silent: bool = False


def make_nvidia_change(change: Change) -> str:
    """Set a value with nvidia-smi; return why the card refuses it, or an empty string."""
    setting, value = change.setting, change.after
    if change.is_restored and setting in RESET_OPTIONS:
        arguments = [RESET_OPTIONS[setting]]
    else:
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        text = COMPUTE_MODES[value] if setting == "compute_mode" else text
        text = str(int(value)) if setting == "ecc" else text
        arguments = [SET_OPTIONS[setting], text]
    status, output = run_nvidia_smi("-i", str(change.card.index), *arguments)
    text = " ".join(output.split())[:200]
    if REFUSED.search(
        output
    ):  # with status 0: "… is not supported for GPU …. Treating as warning and moving on."
        return f"nvidia-smi: {text}"
    if status:
        raise GpuSettingsError(f"GPU {change.card.index}: nvidia-smi {' '.join(arguments)}: {text}")
    return ""


def make_amd_change(change: Change) -> str:
    """Write a value to the files of amdgpu; return why the card refuses it, or an empty string."""
    if change.setting == "power_limit":
        file = next(iter(sorted(change.card.path.glob("hwmon/hwmon*/power1_cap"))))
        text = str(int(change.after) * 1_000_000)
    else:
        file, text = change.card.path / "power_dpm_force_performance_level", str(change.after)
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        return f"amdgpu: {file.name}: {error.strerror}"
    return ""

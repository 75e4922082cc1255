"""Read what a Raspberry Pi's tools answer: throttling flags, temperature, PCIe links."""

from __future__ import annotations

import re

# Raspberry Pi documents these bits of `vcgencmd get_throttled`; source and date are those of the thresholds.
FLAGS = {
    0: "undervoltage_now",
    1: "frequency_capped_now",
    2: "throttled_now",
    3: "soft_temperature_limit_now",
    16: "undervoltage_since_boot",
    17: "frequency_capped_since_boot",
    18: "throttled_since_boot",
    19: "soft_temperature_limit_since_boot",
}


def parse_throttled_bits(text: str) -> int | None:
    """Return the bits of ``throttled=0x50005``, or None when the text is something else."""
    match = re.fullmatch(r"throttled=0x([0-9a-fA-F]{1,8})", text.strip())
    return int(match[1], 16) if match else None


def decode_throttled_flags(bits: int) -> dict[str, bool]:
    """Return every documented flag, set or not."""
    return {name: bool(bits >> bit & 1) for bit, name in FLAGS.items()}


def count_undocumented_bits(bits: int) -> int:
    """Count set bits that have no documented meaning."""
    return (bits & ~sum(1 << bit for bit in FLAGS)).bit_count()


def parse_vcgencmd_celsius(text: str) -> float | None:
    """Return the degrees of ``temp=52.1'C``, or None when the text is something else."""
    match = re.fullmatch(r"temp=(-?\d{1,3}(?:\.\d+)?)'C", text.strip())
    return float(match[1]) if match else None


def parse_pcie_link_gt_per_s(text: object) -> float | None:
    """Return the GT/s of sysfs's ``5.0 GT/s PCIe`` (older kernels: ``5 GT/s``)."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text) if isinstance(text, str) else None
    return float(match[1]) if match else None


def parse_pcie_link_lanes(text: object) -> int | None:
    """Return the lanes of sysfs's ``1``; 0 and 255 mean no link."""
    lanes = int(text) if isinstance(text, str) and re.fullmatch(r"\d{1,3}", text) else 0
    return lanes if 0 < lanes < 255 else None  # noqa: PLR2004 - PCIe's unknown width

"""Counters of `nvidia-smi -q -x` that only size or rate makes a fault: corrected memory errors, PCIe replays."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from xml.etree.ElementTree import Element

from gpufleet.burnin.checks.gpu_nvidia.smi_field import read_number
from gpufleet.burnin.evidence import NOT_APPLICABLE, Reading
from gpufleet.burnin.pcie_generation import SECONDS_PER_MINUTE

# Since the driver loaded, and over the card's life: AzNHC bounds both.
PERIODS = ("volatile", "aggregate")
# Drivers before 450 name the memory by its place; the rest of single_bit is SRAM (caches, registers, textures).
OLD_DRAM, OLD_TOTAL = "device_memory", "total"
# One of several GPUs, which share uptime and driver: so many replays, and so many times as many as its neighbours.
MANY_REPLAYS, TIMES_THE_NEIGHBOURS = 10_000.0, 100.0


def count_corrected_dram(gpu: Element) -> Reading:
    """Return the corrected errors of the memory, of the period that has more."""
    return _find_most(gpu, "dram_correctable", [OLD_DRAM])


def count_corrected_sram(gpu: Element) -> Reading:
    """Return the corrected errors of caches and registers, of the period that has more."""
    single = gpu.find("ecc_errors/volatile/single_bit")
    names = (
        [node.tag for node in single if node.tag not in (OLD_DRAM, OLD_TOTAL)] if single is not None else []
    )
    return _find_most(gpu, "sram_correctable", names)


def _find_most(gpu: Element, name: str, old_names: Sequence[str]) -> Reading:
    counts: list[float] = []
    for period in PERIODS:
        count = read_number(gpu, f"ecc_errors/{period}/{name}")
        old = [read_number(gpu, f"ecc_errors/{period}/single_bit/{old_name}") for old_name in old_names]
        known = [number for number in old if number is not None]
        counts += [count] if count is not None else [sum(known)] if known else []
    return max(counts) if counts else NOT_APPLICABLE


def compare_replay_rate(replays: float | None, allowed_per_minute: float, uptime_s: float | None) -> Reading:
    """Return the PCIe replays per minute since boot as a multiple of what a good link of this width may have.

    The driver loaded after the boot, so that the true rate is not lower.
    """
    if replays is None or not uptime_s:
        return NOT_APPLICABLE
    return replays / max(1.0, uptime_s / SECONDS_PER_MINUTE) / allowed_per_minute


def judge_uneven_replays(counts: Sequence[float | None]) -> list[Reading]:
    """Return 1 for each GPU that counts far more replays than the others of its node."""
    readings: list[Reading] = []
    for place, count in enumerate(counts):
        others = [other for at, other in enumerate(counts) if at != place and other is not None]
        if count is None or not others:
            readings.append(NOT_APPLICABLE)
        else:
            readings.append(float(count > max(MANY_REPLAYS, TIMES_THE_NEIGHBOURS * median(others))))
    return readings

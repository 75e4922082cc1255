"""PCIe's generations (`data/pcie_generations.csv`): rates, and how many replays a good link may have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache

from gpufleet.boundary import read_table

# PCIe permits one wrong bit in 10^12, and DCGM's health watch warns above as many replays (NVIDIA/DCGM
# DcgmHealthWatch.cpp, GetExpectedPcieReplayRate). AMD publishes no bound, and its cards are on the same links.
BIT_ERROR_RATE, WIDEST_LANES, SECONDS_PER_MINUTE = 1e-12, 16.0, 60.0


@dataclass(frozen=True)
class PcieGeneration:
    """One generation: transfers of a lane, and payload of one direction of 16 lanes."""

    generation: int
    gt_per_s: float
    x16_gb_per_s: float
    source: str
    date: date


@cache
def load_pcie_generations() -> dict[int, PcieGeneration]:
    """Return the generations by their number."""
    rows = read_table(PcieGeneration, "gpufleet.burnin", "data/pcie_generations.csv")
    return {row.generation: row for row in rows}


def find_generation(gt_per_s: float | None) -> int | None:
    """Return the generation with these transfers per second, or None."""
    rows = load_pcie_generations().values()
    return next((row.generation for row in rows if row.gt_per_s == gt_per_s), None)


def count_replays_allowed_per_minute(generation: float | None, lanes: float | None) -> float:
    """Return how many PCIe replays a minute a good link may have: 30.7 of Gen5 with 16 lanes.

    The widest and fastest link counts where the link is not known.
    """
    rows = load_pcie_generations()
    rate = rows[int(generation) if generation in rows else max(rows)].gt_per_s
    return rate * 1e9 * BIT_ERROR_RATE * SECONDS_PER_MINUTE * (lanes or WIDEST_LANES)

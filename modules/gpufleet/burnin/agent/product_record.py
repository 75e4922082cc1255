"""The record of repeated matrix products, the same for CUDA, HIP and Vulkan."""

from __future__ import annotations

from typing import Any

MAX_RATES = 60


def build_product_record(
    runs: int, counts: tuple[int, int, int], unit: str, rates: list[float]
) -> dict[str, Any]:
    """Return what repetitions showed; ``counts``: wrong vectors, the first of them, and the bits that differed."""
    wrong, first, bits = counts
    ordered = sorted(rates)
    return {
        "runs": runs,
        "wrong_vectors": wrong,
        "first_wrong_vector": first if wrong else None,
        "wrong_bits": f"{bits:08x}",
        unit: ordered[len(ordered) // 2],
        f"{unit}_range": [ordered[0], ordered[-1]],
        "rates": rates[:: -(-len(rates) // MAX_RATES)],
    }

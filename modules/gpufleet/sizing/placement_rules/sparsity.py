"""Headline rates that vendors state for sparse matrices only."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "sparse-headline",
    reason="vendors print rates with structured sparsity, which models do not have: dense rates are counted",
    source="sizing/data/sparse.csv",
    is_blocking=False,
)
def check_sparse_headline_rate(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    for row in load_sizing_rows("sparse.csv"):
        if row["accelerator"] == accelerator.name and case.workload.precision in row.get_words("precisions"):
            rates = f"its vendor's {row['headline']} is sparse, dense is {row['dense']}"
            yield f"{accelerator.name}: {rates} ({row['source']})"

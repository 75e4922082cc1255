"""Keys of a config.json that change how many weights a model has, in families that no class was compared with.

``counted_families.csv`` lists the families whose counts agree with their class in transformers 5.24. Another family is
counted by the standard keys; if it has a number under a structural name that is not understood, it is refused.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from gpufleet.catalog.data_file import load_catalog_rows
from gpufleet.errors import InputError

STRUCTURAL_KEY = re.compile(
    r"^(n|num|d|moe|mamba|ssm|conv|lru|altup|laurel|per_layer)_|"
    r"_(size|dim|rank|layers|heads|experts|groups|kernel|width|inner|loops|inputs|blocks|expand)$"
)


def check_structural_keys(keys: dict[str, Any], model_type: str, where: str) -> None:
    """Raise InputError for a number in an unlisted family that changes the count and is not understood."""
    if model_type in _load_counted_families():
        return
    for name, value in keys.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value:
            continue
        if STRUCTURAL_KEY.search(name) and name not in _load_known_keys():
            raise InputError(
                f"is not understood in a model of type {model_type or 'unknown'}, and may change its size",
                where=where,
                key=name,
                remedy="give a GGUF file of it, which states its tensors",
            )


@cache
def _load_known_keys() -> frozenset[str]:
    """Return the structural names that are counted, or that change nothing."""
    return frozenset(row["key"] for row in load_catalog_rows("model_keys.csv"))


@cache
def _load_counted_families() -> frozenset[str]:
    return frozenset(row["model_type"] for row in load_catalog_rows("counted_families.csv"))

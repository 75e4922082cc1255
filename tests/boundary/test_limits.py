"""Test the values of the limits, on which documentation, parser tests and operators rely."""

from __future__ import annotations

import pytest

from gpufleet import boundary

MIB = 1024 * 1024
# bytes, levels, values, characters of one text
FIGURES = {
    "OPERATOR_FILE": (4 * MIB, 64, 100_000, MIB),
    "NODE_REPORT": (4 * MIB, 32, 50_000, MIB // 4),
    "RUNNER_EVENT": (8 * MIB, 64, 200_000, MIB),
    "ENGINE_DOCUMENT": (64 * MIB, 200, 1_500_000, 16 * MIB),
    "LARGE_DOCUMENT": (32 * MIB, 64, 1_500_000, MIB),
    "OWN_STATE": (16 * MIB, 64, 500_000, MIB),
}


@pytest.mark.parametrize("name", FIGURES)
def test_limits_have_the_recorded_values(name):
    limits = getattr(boundary, name)
    assert (limits.bytes, limits.depth, limits.values, limits.characters) == FIGURES[name]

"""Test the page that compares check families: every claim has a source, and ours name checks that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.burnin.readings import list_read_checks

PAGE = (Path(__file__).parents[2] / "docs/burn-in-comparison.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.count("|") == 9
]
REPOSITORIES = (
    "NVIDIA/DCGM",
    "Azure/azurehpc-health-checks",
    "leptonai/gpud",
    "ROCm/ROCmValidationSuite",
    "microsoft/superbenchmark",
)


def list_own_checks(cell):
    """Return the checks that our cell names."""
    return [
        name
        for name in cell.replace("-", "").split(", ")
        if name and "burnin" not in name and " " not in name
    ]


@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row[0])
def test_every_cell_is_a_dash_or_names_its_source_at_a_commit(row):
    for cell, repository in zip(row[1:6], REPOSITORIES, strict=True):
        if cell != "-":
            assert re.fullmatch(
                rf"\[[^\]]+\]\(https://github\.com/{repository}/(?:blob|tree)/[0-9a-f]{{40}}/\S+\)", cell
            )
    assert set(list_own_checks(row[6])) <= set(list_read_checks())
    assert row[7] in {"H", "S", "V", "F", "L", "M", "R", "N"}
    assert (row[6] == "-") == (row[7] == "N")


def test_every_judged_check_of_that_time_is_in_the_table():
    """A check that came later waits for the next comparison: whether another tool has its family was not looked at."""
    named = {name for row in ROWS[1:] for name in list_own_checks(row[6])}
    (read_on,) = re.findall(r"that was read on (\d{4}-\d\d-\d\d)", PAGE)
    judged = {threshold.check for threshold in burnin.load_thresholds() if threshold.date <= read_on}
    assert judged - named <= {"configuration", "crash"}

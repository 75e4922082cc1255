"""Test that each row of docs/burn-in-cases.md names a source and a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    line.strip("|").split("|")
    for line in (ROOT / "docs/burn-in-cases.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| report |")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_row_has_a_source_and_an_existing_test(row):
    report, source, answer, test = (cell.strip() for cell in row)
    assert report
    assert answer
    assert re.search(r"#\d+|https://|\.c\b|\bbug \d+", source)
    path, _, name = test.strip("`").partition("::")
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert name.partition("[")[0] in text

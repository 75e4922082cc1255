"""Test that docs/cloud-traps.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cloud-traps.md").read_text()
NAMED_TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED_TESTS, ids=[name for _, name in NAMED_TESTS])
def test_named_test_exists(file, name):
    assert f"\ndef {name}(" in (ROOT / file).read_text()


def test_page_names_tests():
    assert len(NAMED_TESTS) > 15

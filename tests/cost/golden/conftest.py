"""Golden programs, read once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("golden.py"))
golden = importlib.util.module_from_spec(spec)
sys.modules.setdefault("golden", golden)
spec.loader.exec_module(golden)


@pytest.fixture(scope="session")
def golden_cases():
    """Return every golden program."""
    return golden.load_cases()


@pytest.fixture(scope="session")
def golden_book():
    """Return the prices they are written against."""
    return golden.book()

"""Fixtures: a separate price store that all look-ups use."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gpufleet.catalog.prices import PriceRow, PriceStore

CASES = Path(__file__).resolve().parents[2] / "cases/catalog/prices"
KEY = ("aws", "us-east-1", "g5.2xlarge", "on_demand")  # embedded: 1.212 of 2026-07-06


@pytest.fixture(autouse=True)
def future_today(monkeypatch):
    """Set the current date after all price dates of these tests."""
    monkeypatch.setattr("gpufleet.catalog.prices.name_check.utc_today", lambda: date(2027, 12, 1))


@pytest.fixture
def store_path(tmp_path, monkeypatch):
    path = tmp_path / "prices.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    PriceStore(path).close_connection()  # a store that is named and not there is an error
    return path


@pytest.fixture
def store(store_path):
    with PriceStore(store_path) as open_store:
        yield open_store


@pytest.fixture
def cases_folder():
    return CASES


def build_row(usd=1.3, as_of="2026-11-01", key=KEY, source="a test", **more):
    return PriceRow(*key, usd, as_of, source, **more)


def store_rows(store, *rows, key="1", accept=("unknown-region", "unknown-machine")):
    run = store.begin_or_resume_run("test", key)
    return store.commit_run(store.stage_batch("all", rows, run), accept)

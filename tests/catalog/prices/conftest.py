"""A price store of the test's own, in force for every look-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.catalog.prices import PriceRow, Store

CASES = Path(__file__).resolve().parents[2] / "cases/catalog/prices"
KEY = ("aws", "us-east-1", "g5.2xlarge", "on_demand")  # embedded: 1.212 of 2026-07-06


@pytest.fixture
def path(tmp_path, monkeypatch):
    found = tmp_path / "prices.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(found))
    return found


@pytest.fixture
def store(path):
    with Store(path) as opened:
        yield opened


@pytest.fixture
def cases():
    return CASES


def row(usd=1.3, as_of="2026-11-01", key=KEY, source="a test", **more):
    return PriceRow(*key, usd, as_of, source, **more)


def put(store, *rows, key="1", accept=()):
    run = store.begin("test", key)
    return store.commit(store.write_batch("all", rows, run), accept)

"""Compare a random sample of embedded prices with what the vendors published.

``vendor_spot_checks.csv`` has the published price, its day and the recording of the vendor's price list, which is not
what the embedded row comes from. ``other``: the vendor has changed the price since.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.boundary import decode_csv

FILE = Path(__file__).resolve().parents[2] / "cases/catalog/vendor_spot_checks.csv"
ROWS = decode_csv(FILE.read_text(), FILE.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cloud']} {row['region']} {row['item']}")
def test_embedded_price_is_what_the_vendor_published(row):
    find = catalog.find_machine_price if row["kind"] == "machine" else catalog.find_cloud_part_price
    price = find(row["cloud"], row["region"], row["item"], "on_demand")
    hours = catalog.HOURS_PER_MONTH if row["per"] == "month" else 1
    is_equal = price.usd_per_hour * hours == pytest.approx(row.get_number("usd"), rel=2e-3)
    assert is_equal == (row["expected"] == "equal")
    assert row["source"].partition("@")[0].partition("/")[2] not in price.source
    if not is_equal:
        assert price.as_of > row["as_of"]


def test_a_hundred_prices_are_equal():
    counts = Counter(row["expected"] for row in ROWS)
    assert counts["equal"] >= 100
    assert counts["other"] <= 5
    assert {row["cloud"] for row in ROWS} == {"aws", "azure", "gcp"}
    assert len({(row["cloud"], row["region"]) for row in ROWS}) >= 50
    assert [row for row in ROWS if not row.get_date("as_of")] == []

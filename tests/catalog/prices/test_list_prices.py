"""Compare embedded prices with list prices that other projects recorded from the vendors' own price lists.

``list_prices.csv`` has a source for each line; the snapshot is built from none of them. ``missing`` is a price that it
does not have: the type was new in that region, or Azure sells no Windows for it. ``other`` is Windows on Azure's
Dv2, where the recording is undated and the snapshot of 2025-05-28 has a lower price.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.boundary import decode_csv

FILE = Path(__file__).resolve().parents[2] / "cases/catalog/list_prices.csv"
ROWS = decode_csv(FILE.read_text(), FILE.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cloud']} {row['region']} {row['item']}")
def test_embedded_price_is_the_vendors_list_price(row):
    price = catalog.find_machine_price(row["cloud"], row["region"], row["item"], "on_demand")
    expected = pytest.approx(row.get_number("usd_per_hour"), rel=1e-3)
    if row["expected"] == "missing":
        assert price is None
    else:
        assert (price.usd_per_hour == expected) == (row["expected"] == "equal")


def test_at_least_100_prices_of_three_clouds_are_equal():
    counts = Counter((row["cloud"], row["expected"]) for row in ROWS)
    assert sum(count for (_, expected), count in counts.items() if expected == "equal") >= 100
    assert sum(count for (_, expected), count in counts.items() if expected == "other") <= 6
    assert all(counts[cloud, "equal"] >= 20 for cloud in catalog.CLOUDS)
    assert {row["source"].partition("@")[0] for row in ROWS} == {
        "skypilot-org/skypilot-catalog",
        "RMRanjit/SUNA-UI",
    }

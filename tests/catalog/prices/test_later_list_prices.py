"""Compare embedded prices of parts and machines with documents that their rows do not come from.

``later_list_prices.csv`` names the document of each line: bills and price queries in audits, answers of price lists
that other projects recorded, and tables of other programs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.boundary import decode_csv

FILE = Path(__file__).resolve().parents[2] / "cases/catalog/later_list_prices.csv"
ROWS = decode_csv(FILE.read_text(), FILE.name)


def find_price(row):
    if row["kind"] == "machine":
        return catalog.find_machine_price(row["cloud"], row["region"], row["item"], "on_demand")
    return catalog.find_cloud_part_price(row["cloud"], row["region"], row["item"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cloud']} {row['region']} {row['item']}")
def test_embedded_price_is_the_documents_price(row):
    price = find_price(row)
    hours = catalog.HOURS_PER_MONTH if row["per"] == "month" else 1
    assert price.usd_per_hour * hours == pytest.approx(row.get_number("usd"), rel=1e-3)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cloud']} {row['region']} {row['item']}")
def test_the_document_is_not_the_source_of_the_row(row):
    repository = row["source"].partition("@")[0].partition("/")[2]
    assert repository
    assert repository.lower() not in find_price(row).source.lower()


def test_checks_cover_regions_kinds_and_documents():
    assert len(ROWS) >= 160
    assert len({row["region"] for row in ROWS if row["cloud"] == "aws"}) >= 34
    counts = Counter((row["cloud"], row["kind"]) for row in ROWS)
    assert counts["aws", "part"] >= 60
    assert counts["azure", "machine"] >= 40
    assert len({row["source"].partition("@")[0] for row in ROWS}) >= 6

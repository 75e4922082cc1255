"""Test the table of what a refresh reads: each embedded part, and the page in docs."""

from __future__ import annotations

import re

import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.catalog.prices import refresh_report
from gpufleet.catalog.prices.part_rule import list_part_names, load_rule_rows
from gpufleet.catalog.prices.refresh.aws_file import AwsPriceFileSource
from gpufleet.catalog.prices.refresh.google_sku import ADDRESS_DESCRIPTIONS, DISK_DESCRIPTIONS
from tools.price_lists import PART_LISTS, read_price_list

from .conftest import CASES, TODAY
from .test_aws_file import PARTS, serve_files

PAGE = CASES.parents[3] / "docs/price-refresh.md"


def test_page_is_current():
    assert PAGE.read_text() == refresh_report.build_page()


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_every_embedded_part_is_read_or_has_a_reason(cloud):
    gaps = refresh_report.find_gap_reasons(cloud)
    assert [part for part, reason in gaps.items() if not reason] == []
    read = set(refresh_report.list_refreshed_parts(cloud))
    assert read.isdisjoint(gaps)
    assert read | set(gaps) == set(refresh_report.list_embedded_parts(cloud))


def test_every_reason_is_of_a_part_that_is_not_read():
    unused = [
        row["part"]
        for row in data_file.load_catalog_rows("refresh_gaps.csv")
        if not any(re.fullmatch(row["part"], part) for part in refresh_report.find_gap_reasons(row["cloud"]))
    ]
    assert unused == []


@pytest.mark.parametrize(("cloud", "least"), [("aws", 0.95), ("gcp", 0.85), ("azure", 0.9)])
def test_share_of_refreshed_parts_does_not_shrink(cloud, least):
    embedded = refresh_report.list_embedded_parts(cloud)
    share = len(refresh_report.list_refreshed_parts(cloud)) / len(embedded)
    assert share >= least, "add a rule to catalog/data/refresh_CLOUD.csv: too many parts have only a reason"


def test_units_of_refreshed_parts_are_those_of_the_embedded_prices():
    wrong = [
        (key[2], name.unit, price.unit)
        for key, price in data_file.load_cloud_part_prices().items()
        for name in list_part_names(key[0])
        if name.pattern.fullmatch(key[2]) and name.unit != price.unit
    ]
    assert wrong == []


def test_use_and_time_of_refreshed_parts_are_those_of_the_embedded_prices():
    wrong = [
        (row["part"], name.per)
        for file in PART_LISTS
        for row in read_price_list(file)
        for name in list_part_names(row["cloud"])
        if name.pattern.fullmatch(row["part"]) and (name.per == "use") != (row["per"] == "use")
    ]
    assert wrong == []


def test_what_the_code_of_aws_files_reads_is_read_from_a_case(start_fake_server, http_client):
    fake_server = start_fake_server(serve_files)
    items = {
        row.item
        for name in PARTS
        for row in AwsPriceFileSource(name, http_client, fake_server.base)
        .fetch_region_prices("us-east-1", TODAY)
        .rows
    }
    coded = refresh_report.CODED_PARTS["aws"]
    assert [pattern for pattern in coded if not any(re.fullmatch(pattern, item) for item in items)] == []


def test_what_the_code_of_google_reads_is_in_its_tables():
    known = {
        *DISK_DESCRIPTIONS.values(),
        *ADDRESS_DESCRIPTIONS.values(),
        "local-ssd",
        "accelerator:nvidia-tesla-t4",
        "accelerator:nvidia-tesla-v100",
    }
    coded = refresh_report.CODED_PARTS["gcp"]
    assert [item for item in known if not any(re.fullmatch(pattern, item) for pattern in coded)] == []
    assert [pattern for pattern in coded if not any(re.fullmatch(pattern, item) for item in known)] == []


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_every_rule_names_its_source_once(cloud):
    rows = load_rule_rows(cloud)
    assert [row["part"] for row in rows if not row["source"]] == []
    keys = [tuple(value for key, value in row.items() if key != "source") for row in rows]
    assert len(keys) == len(set(keys))

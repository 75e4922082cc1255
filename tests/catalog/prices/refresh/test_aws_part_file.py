"""Test the rules for Amazon's price files of services: one file a service, served on loopback."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from dataclasses import replace

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_price_check_context
from gpufleet.catalog.prices.part_rule import load_rule_rows
from gpufleet.catalog.prices.refresh import RefreshScope, SourceUnavailable, refresh_prices
from gpufleet.catalog.prices.refresh.aws_file import (
    COMMON_COLUMNS,
    PRICE_FILES,
    SERVICES,
    AwsPriceFileSource,
)
from gpufleet.catalog.prices.refresh.aws_file_part import PART_RULES
from gpufleet.catalog.prices.source_name import AWS_FILE_SOURCES

from .conftest import CASES, DAY, TODAY, FakeResponse, list_visible_prices
from .test_aws_file import PREAMBLE

HOME = "us-east-1"


def read_case_rows():
    with (CASES / "aws_part_rows.csv").open() as file:
        return list(csv.DictReader(file))


CASE_ROWS = read_case_rows()


def render_file(service, region=HOME, changes=None):
    """Return the file of a service, with the case's rows for any region."""
    source = next(name for name, file in PRICE_FILES.items() if file.service == service)
    columns = [*COMMON_COLUMNS, *PRICE_FILES[source].columns]
    text = io.StringIO()
    writer = csv.DictWriter(
        text, columns, quoting=csv.QUOTE_ALL, lineterminator="\n", restval="", extrasaction="ignore"
    )
    writer.writeheader()
    common = {"TermType": "OnDemand", "Currency": "USD", "Region Code": region, "OfferTermCode": "JRTCKXETXF"}
    for row in CASE_ROWS:
        if row["service"] == service:
            writer.writerow(row | common | (changes or {}))
    return (PREAMBLE + text.getvalue()).encode()


def serve_files(path, query):
    _, _, _, _, service, _, region, _ = path.split("/")
    if not any(row["service"] == service for row in CASE_ROWS):
        return FakeResponse(b"<Error><Code>AccessDenied</Code></Error>", 403)  # no such file
    return render_file(service, region)


@pytest.fixture
def fetch(start_fake_server, http_client):
    fake_server = start_fake_server(serve_files)

    def fetch_rows(name, region=HOME):
        return AwsPriceFileSource(name, http_client, fake_server.base).fetch_region_prices(region, TODAY)

    fetch_rows.fake_server = fake_server
    return fetch_rows


PARTS_BY_SERVICE = defaultdict(set)
for case_row in CASE_ROWS:
    PARTS_BY_SERVICE[case_row["service"]] |= {case_row["part"]} - {""}


@pytest.mark.parametrize(
    "name", [name for name in PRICE_FILES if PRICE_FILES[name].service in PARTS_BY_SERVICE]
)
def test_parts_of_each_service_are_read_and_pass_the_checks(fetch, name):
    batch = fetch(name)
    assert ({row.item for row in batch.rows}, batch.left_out) == (
        PARTS_BY_SERVICE[PRICE_FILES[name].service],
        (),
    )
    findings = check_prices(batch.rows, load_price_check_context(None, batch.rows))
    assert [(finding.code, finding.row.item) for finding in findings] == []


def test_refreshed_parts_have_the_embedded_prices(fetch):
    rows = [
        row
        for name in PRICE_FILES
        if PRICE_FILES[name].service in PARTS_BY_SERVICE
        for row in fetch(name).rows
    ]
    embedded = [(row, catalog.find_cloud_part_price("aws", HOME, row.item)) for row in rows]
    compared = [(row, price) for row, price in embedded if price]
    assert len(compared) >= 60
    assert [
        row.item
        for row, price in compared
        if row.unit != price.unit or row.usd_per_hour != pytest.approx(price.usd_per_hour, rel=0.01)
    ] == []


def test_the_first_tier_that_is_not_free_counts(fetch):
    prices = {row.item: row.usd_per_hour for row in fetch("aws-file-sqs").rows}
    assert prices["sqs:request"] == pytest.approx(4e-7)
    prices = {row.item: row.usd_per_hour for row in fetch("aws-file-dynamodb").rows}
    assert prices["dynamodb:storage"] == pytest.approx(0.25 / 730)


@pytest.mark.parametrize("prefix", ["EUW2-", "EU-", ""])
def test_the_region_prefix_of_a_usage_type_is_dropped(start_fake_server, http_client, prefix):
    fake_server = start_fake_server(
        lambda *_: render_file(
            "AmazonMWAA", "eu-west-2", {"usageType": f"{prefix}Airflow-StandardDatabaseStorage"}
        )
    )
    source = AwsPriceFileSource("aws-file-mwaa", http_client, fake_server.base)
    assert [row.item for row in source.fetch_region_prices("eu-west-2", TODAY).rows] == ["mwaa:storage"]


@pytest.mark.parametrize(
    ("service", "unit"),
    [("AmazonMWAA", "GB"), ("AmazonAthena", "GB-Mo"), ("AmazonAthena", "Hrs"), ("CloudHSM", "Quantity")],
)
def test_a_unit_of_something_else_is_not_a_price(start_fake_server, http_client, service, unit):
    fake_server = start_fake_server(lambda *_: render_file(service, HOME, {"Unit": unit}))
    name = next(name for name in PRICE_FILES if PRICE_FILES[name].service == service)
    assert AwsPriceFileSource(name, http_client, fake_server.base).fetch_region_prices(HOME, TODAY).rows == ()


def test_two_prices_of_a_part_leave_it_out(start_fake_server, http_client):
    content = render_file("AmazonRedshift").replace(b'"RMS:ra3.xlplus","GB-Mo"', b"")
    second = content.replace(b"0.024", b"0.030", 1)
    fake_server = start_fake_server(lambda *_: second)
    batch = AwsPriceFileSource("aws-file-redshift", http_client, fake_server.base).fetch_region_prices(
        HOME, TODAY
    )
    assert batch.left_out == ("aws us-east-1 redshift:managed_storage: 2 prices above zero",)


def test_a_bad_price_of_a_new_part_is_found(fetch):
    rows = [replace(row, usd_per_hour=row.usd_per_hour * 730) for row in fetch("aws-file-msk").rows]
    findings = check_prices(rows, load_price_check_context(None, rows))
    assert {(finding.code, finding.row.item) for finding in findings} >= {
        ("jump", "msk:kafka.m5.large"),
        ("jump", "msk:storage"),
    }


def test_a_bad_price_is_found_in_a_region_without_a_known_one(fetch):
    """The price of other regions is what remains to compare with."""
    rows = fetch("aws-file-msk", "eu-north-1").rows
    known = replace(load_price_check_context(None, rows), prices={})
    assert list(check_prices(rows, known)) == []
    findings = check_prices([replace(row, usd_per_hour=row.usd_per_hour * 730) for row in rows], known)
    assert {(finding.code, finding.row.item) for finding in findings} >= {
        ("region-outlier", "msk:kafka.m5.large"),
        ("region-outlier", "msk:storage"),
    }


def test_a_region_without_a_service_is_not_offered_and_the_others_are_stored(fetch, http_client, store):
    sources = [
        AwsPriceFileSource(name, http_client, fetch.fake_server.base)
        for name in ("aws-file-elb", "aws-file-efs")  # the case has no rows of ELB
    ]
    outcomes = refresh_prices(store, sources, RefreshScope(DAY, (HOME, "eu-west-1")))
    assert [outcome.state for outcome in outcomes] == ["skipped", "stored"]
    assert {row[1] for row in list_visible_prices(store)} == {HOME, "eu-west-1"}


def test_a_file_without_the_column_operation_is_unavailable(start_fake_server, http_client):
    fake_server = start_fake_server(lambda *_: render_file("AmazonMSK").replace(b'"operation"', b'"action"'))
    with pytest.raises(SourceUnavailable, match="operation"):
        AwsPriceFileSource("aws-file-msk", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)


def test_every_rule_has_a_file_and_a_group_for_each_placeholder():
    assert {rule.service for rule in PART_RULES} == set(SERVICES.values())
    assert list(PRICE_FILES) == list(AWS_FILE_SOURCES)
    for row in load_rule_rows("aws"):
        assert set(re.findall(r"\{(\w+)\}", row["part"])) == set(re.compile(row["usage"]).groupindex), row[
            "part"
        ]

"""Test the parts of Google's services against a fake of the billing catalogue."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_price_check_context
from gpufleet.catalog.prices.refresh import MissingCredentials, RefreshScope, refresh_prices
from gpufleet.catalog.prices.refresh.google import GoogleBillingSource
from gpufleet.catalog.prices.refresh.google_parts import find_unit_faults, list_part_rules, read_part_prices

from .conftest import CASES, DAY, TODAY
from .google_catalog_api import build_catalog_api


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "a-secret-key")


def build_sku(description, usageType, serviceRegions, usageUnit, tiers, *, group="", taxonomy="", **_):  # noqa: N803
    rates = [tier.split(":") for tier in tiers.split(";")]
    kind, *regions = taxonomy.split() if taxonomy else ("GLOBAL",)
    return {
        "description": description,
        "category": {
            "usageType": usageType, "resourceFamily": "ApplicationServices", "resourceGroup": group or "x"},
        "serviceRegions": serviceRegions.split(),
        "geoTaxonomy": {"type": kind, "regions": regions},
        "pricingInfo": [{"pricingExpression": {
            "usageUnit": usageUnit,
            "tieredRates": [
                {"startUsageAmount": float(start), "unitPrice": {
                    "currencyCode": "USD", "units": str(int(float(usd))), "nanos": round(float(usd) % 1 * 1e9)}}
                for start, usd in rates
            ],
        }}],
    }  # fmt: skip


with (CASES / "gcp_part_skus.csv").open() as case_file:
    CASE_ROWS = list(csv.DictReader(case_file))
SKUS_BY_SERVICE = defaultdict(list)
for case_row in CASE_ROWS:
    SKUS_BY_SERVICE[case_row["service"]].append(build_sku(**case_row))


def read_region(start_fake_server, http_client, region, skus=SKUS_BY_SERVICE):
    fake_server = start_fake_server(build_catalog_api(skus))
    return GoogleBillingSource(http_client, fake_server.base).fetch_region_prices(region, TODAY)


def list_case_parts(region):
    """Return the parts that the cases give to a region or to all."""
    return {
        part
        for row in CASE_ROWS
        for part in row["part"].split()
        if {region, "global"} & set((row["taxonomy"] or row["serviceRegions"]).split())
    }


@pytest.fixture
def batch(start_fake_server, http_client):
    return read_region(start_fake_server, http_client, "us-central1")


@pytest.mark.parametrize("region", ["us-central1", "europe-west1"])
def test_parts_of_all_services_are_read_and_no_other_sku(start_fake_server, http_client, region):
    batch = read_region(start_fake_server, http_client, region)
    assert {row.item for row in batch.rows} == list_case_parts(region)
    assert [reason for reason in batch.left_out if "prices" in reason or "unit" in reason] == []


@pytest.mark.parametrize(("region", "least"), [("us-central1", 55), ("europe-west1", 15)])
def test_refreshed_parts_have_the_embedded_prices(start_fake_server, http_client, region, least):
    batch = read_region(start_fake_server, http_client, region)
    embedded = [
        (row, catalog.find_cloud_part_price("gcp", region, row.item, row.purchase)) for row in batch.rows
    ]
    compared = [(row, price) for row, price in embedded if price]
    assert len(compared) >= least
    assert [
        (row.item, row.unit, row.usd_per_hour, price.unit, price.usd_per_hour)
        for row, price in compared
        if row.unit != price.unit or row.usd_per_hour != pytest.approx(price.usd_per_hour, rel=0.01)
    ] == []


def test_refreshed_parts_pass_the_checks_and_a_wrong_one_does_not(batch):
    known = load_price_check_context(None, batch.rows)
    assert [(each.code, each.row.item) for each in check_prices(batch.rows, known)] == []
    rows = [
        replace(row, usd_per_hour=row.usd_per_hour * 730)
        for row in batch.rows
        if row.item == "cloud_sql:vcpu"
    ]
    assert [(each.code, each.row.item) for each in check_prices(rows, known)] == [("jump", "cloud_sql:vcpu")]


def test_a_price_of_all_regions_holds_in_each_and_its_own_replaces_it(start_fake_server, http_client):
    skus = dict(SKUS_BY_SERVICE)
    own = build_sku(
        "Networking Cloud Nat Data Processing in Johannesburg", "OnDemand", "africa-south1", "GiBy", "0:0.07"
    )
    skus["Networking"] = [*skus["Networking"], own]
    batch = read_region(start_fake_server, http_client, "africa-south1", skus)
    prices = {(row.region, row.item): row.usd_per_hour for row in batch.rows}
    assert prices["africa-south1", "nat_gateway:gib"] == 0.07
    assert prices["global", "nat_gateway:gib"] == 0.045
    assert prices["africa-south1", "kubernetes_cluster"] == prices["global", "kubernetes_cluster"] == 0.1
    assert ("africa-south1", "cloud_sql:vcpu") not in prices


def test_a_part_that_is_priced_globally_replaces_the_embedded_price(start_fake_server, http_client, store):
    fake_server = start_fake_server(build_catalog_api(SKUS_BY_SERVICE))
    scope = RefreshScope(DAY, ("us-central1", "europe-west1"))
    (outcome,) = refresh_prices(store, [GoogleBillingSource(http_client, fake_server.base)], scope)
    assert outcome.state == "stored"
    price = catalog.find_cloud_part_price("gcp", "global", "logging:ingestion")
    assert (price.source, price.usd_per_hour) == ("gcp-billing-catalog", 0.5)


def test_cloud_run_has_a_dearer_tier_of_regions(start_fake_server, http_client):
    rows = {
        row.item: row.usd_per_hour for row in read_region(start_fake_server, http_client, "europe-west2").rows
    }
    assert rows["cloud_run:request:vcpu_second"] == pytest.approx(3.36e-5)


def test_two_prices_of_a_part_leave_it_out(start_fake_server, http_client):
    skus = dict(SKUS_BY_SERVICE)
    other = build_sku("Zonal Kubernetes Clusters", "OnDemand", "global", "h", "0:0.2")
    skus["Kubernetes Engine"] = [*skus["Kubernetes Engine"], other]
    batch = read_region(start_fake_server, http_client, "us-central1", skus)
    assert "gcp us-central1 kubernetes_cluster: 2 prices" in batch.left_out
    assert "kubernetes_cluster" not in {row.item for row in batch.rows}


def test_spot_price_of_a_tpu_is_told_apart_by_its_description(batch):
    prices = {row.purchase: row.usd_per_hour for row in batch.rows if row.item == "tpu:v5e"}
    assert prices == {"on_demand": 1.2, "spot": 0.6}


def test_a_part_without_the_price_of_a_component_is_left_out(start_fake_server, http_client):
    cores = [sku for sku in SKUS_BY_SERVICE["Vertex AI"] if "Ram" not in sku["description"]]
    batch = read_region(
        start_fake_server, http_client, "us-central1", {**SKUS_BY_SERVICE, "Vertex AI": cores}
    )
    assert "gcp us-central1 vertex:prediction:n1-standard-4: no SKU of ram" in batch.left_out
    assert [row.item for row in batch.rows if row.item.startswith("vertex")] == []


def test_two_directions_of_a_balancer_with_two_prices_leave_the_part_out(start_fake_server, http_client):
    other = build_sku(
        "Regional External Application Load Balancer Outbound Data Processing for Iowa (us-central1)",
        "OnDemand", "us-central1", "GiBy", "0:0.01",
    )  # fmt: skip
    skus = {**SKUS_BY_SERVICE, "Networking": [*SKUS_BY_SERVICE["Networking"], other]}
    batch = read_region(start_fake_server, http_client, "us-central1", skus)
    assert "gcp us-central1 load_balancer:data: 2 prices" in batch.left_out


@pytest.mark.parametrize("unit", ["GiBy.h", "mo", "s", "count", "\x1b[31m" * 9])
def test_a_unit_that_measures_another_thing_is_refused_and_reported(start_fake_server, http_client, unit):
    row = next(row for row in CASE_ROWS if row["part"] == "dataproc:vcpu")
    skus = {"Compute Engine": [build_sku(**{**row, "usageUnit": unit})]}
    batch = read_region(start_fake_server, http_client, "us-central1", skus)
    (reason,) = [reason for reason in batch.left_out if "unit" in reason]
    assert reason == f"gcp global dataproc:vcpu: its SKU has the unit {unit[:20]!a}, not h"
    assert batch.rows == ()


def test_a_price_by_decimal_gigabyte_becomes_one_by_gibibyte(start_fake_server, http_client):
    row = next(row for row in CASE_ROWS if row["part"] == "dataflow:batch:memory")
    skus = {
        "Compute Engine": [],
        "Cloud Dataflow": [build_sku(**{**row, "usageUnit": "GBy.h", "tiers": "0:0.001"})],
    }
    (part,) = read_region(start_fake_server, http_client, "us-central1", skus).rows
    assert part.usd_per_hour == pytest.approx(0.001073741824)


def test_a_service_that_the_catalogue_does_not_list_is_reported(start_fake_server, http_client):
    skus = {name: skus for name, skus in SKUS_BY_SERVICE.items() if name != "Cloud Filestore"}
    batch = read_region(start_fake_server, http_client, "us-central1", skus)
    assert "gcp us-central1 Cloud Filestore: no such service" in batch.left_out


@pytest.mark.parametrize(
    "changes",
    [
        {"usageType": "Commit1Yr"},
        {"usageUnit": "GiBy.h"},
        {"tiers": "0:0"},
        {"description": "Cloud SQL for PostgreSQL: Zonal - vCPU"},
        {"serviceRegions": ""},
    ],
)
def test_other_skus_are_not_parts(changes):
    row = next(row for row in CASE_ROWS if row["part"] == "cloud_sql:vcpu")
    assert list(read_part_prices("Cloud SQL", build_sku(**row)))
    assert list(read_part_prices("Cloud SQL", build_sku(**{**row, **changes}))) == []
    assert list(read_part_prices("Cloud Run", build_sku(**row))) == []


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.text(max_size=4)))


@given(
    st.sampled_from([row for row in CASE_ROWS if row["part"]]),
    st.dictionaries(
        st.sampled_from(["category", "description", "serviceRegions", "geoTaxonomy", "pricingInfo"]), JUNK
    ),
)
def test_skus_with_any_values_give_valid_prices_or_none(row, changed):
    sku = {**build_sku(**row), **changed}
    for region, part, _, usd in read_part_prices(row["service"], sku):
        assert isinstance(region, str)
        assert part.name in row["part"].split()
        assert usd > 0
    assert all(isinstance(region, str) for region, _ in find_unit_faults(row["service"], sku))


@pytest.mark.parametrize("query", [{"pageSize": "5001"}, {"pageToken": "x"}, {"pageToken": "3"}])
def test_the_fake_refuses_what_the_server_refuses(query):
    assert build_catalog_api(SKUS_BY_SERVICE)("/services", query).status == 400
    assert build_catalog_api(SKUS_BY_SERVICE)("/services/0000-0000-0000/skus", {}).status == 404


def test_a_refused_key_is_missing_credentials(start_fake_server, http_client):
    from .google_catalog_api import refuse

    fake_server = start_fake_server(lambda *_: refuse(403, "PERMISSION_DENIED"))
    with pytest.raises(MissingCredentials):
        GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)


def test_every_placeholder_is_a_group():
    for rule in list_part_rules():
        assert set(re.findall(r"\{(\w+)\}", rule.name.template)) == set(rule.description.groupindex)

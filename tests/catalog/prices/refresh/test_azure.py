from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog.prices.refresh import RequestRejected, SourceUnavailable
from gpufleet.catalog.prices.refresh.azure import (
    AzureItemReader,
    AzureRetailPriceSource,
    build_region_query_filter,
    find_purchase_kind,
)

from .conftest import DAY, TODAY, read_case

PAGES = read_case("azure_items.json")["pages"]
ITEMS = [item for page in PAGES for item in page]
H100 = "Standard_ND96isr_H100_v5"


def build_retail_api(pages, port):
    """Answer as the Retail Prices API does; its links name a port."""

    def serve(path, query):
        assert path == "/api/retail/prices"
        at = int(query.get("$skip", 0))
        link = f"http://127.0.0.1:{port}{path}?$skip={at + 1}" if at + 1 < len(pages) else None
        return {"BillingCurrency": "USD", "Items": pages[at], "NextPageLink": link, "Count": len(pages[at])}

    return serve


@pytest.fixture
def start_api(start_fake_server, http_client):
    def start(pages):
        fake_server = start_fake_server(lambda *_: {})
        fake_server.serve = build_retail_api(pages, fake_server.base.rpartition(":")[2])
        return fake_server, AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices")

    return start


def build_rows(items=ITEMS):
    reader = AzureItemReader("eastus", DAY.isoformat(), "a test")
    return {(row.item, row.purchase): row for row in reader.build_price_rows(items)}, reader.left_out


def test_pages_are_followed_with_the_documented_filter(start_api):
    fake_server, source = start_api(PAGES)
    batch = source.fetch_region_prices("eastus", TODAY)
    assert {row.item for row in batch.rows} == {H100, "Standard_NC24ads_A100_v4"}
    assert len(fake_server.requests) == 2
    assert "api-version=2023-01-01-preview" in fake_server.requests[0]
    assert "serviceName eq 'Virtual Machines'" in build_region_query_filter("eastus")
    assert "armRegionName eq 'eastus'" in build_region_query_filter("eastus")


@pytest.mark.parametrize("purchase", ["on_demand", "spot", "reserved_1y", "reserved_3y"])
def test_prices_match_the_embedded_catalogue(purchase):
    rows_by_key, _ = build_rows()
    assert rows_by_key[H100, purchase].usd_per_hour == pytest.approx(
        catalog.find_machine_price("azure", "eastus", H100, purchase).usd_per_hour, rel=1e-5
    )


def test_reservation_price_covers_the_full_term_for_any_unit_of_measure():
    rows_by_key, _ = build_rows()
    (item,) = [
        item for item in ITEMS if item["armSkuName"] == H100 and item.get("reservationTerm") == "1 Year"
    ]
    assert item["unitOfMeasure"] == "1 Hour"
    assert rows_by_key[H100, "reserved_1y"].usd_per_hour == pytest.approx(item["retailPrice"] / 8760)


def test_reservation_cheaper_than_one_on_demand_hour_is_left_out():
    rows_by_key, left_out = build_rows()
    assert ("Standard_NC24ads_A100_v4", "reserved_3y") not in rows_by_key
    assert any("3 a term, but 3.673 an hour" in reason for reason in left_out)


def test_savings_plans_are_read_from_on_demand_items():
    rows_by_key, _ = build_rows()
    assert rows_by_key[H100, "savings_plan_1y"].usd_per_hour == 68.824
    assert rows_by_key[H100, "savings_plan_3y"].usd_per_hour == 49.16


@pytest.mark.parametrize(
    ("changed", "purchase"),
    [
        ({}, "on_demand"),
        ({"skuName": "ND96isr H100 v5 Spot"}, "spot"),
        ({"meterName": "ND96isrH100v5 Low Priority"}, None),
        ({"productName": "Virtual Machines NDsr H100 v5 Series Windows"}, None),
        ({"productName": "NDsr H100 v5 Series CloudServices"}, None),
        ({"productName": "NDsr H100 v5 Dedicated Host"}, None),
        ({"unitOfMeasure": "1/Month"}, None),
        ({"tierMinimumUnits": 100}, None),
        ({"type": "DevTestConsumption"}, None),
        ({"type": "Reservation", "reservationTerm": "1 Year"}, "reserved_1y"),
        ({"type": "Reservation", "reservationTerm": "5 Years"}, None),
        ({"type": "Reservation"}, None),
        ({"armSkuName": ""}, None),
        ({"armSkuName": None}, None),
    ],
)
def test_item_is_classified_by_purchase_kind(changed, purchase):
    assert find_purchase_kind({**ITEMS[0], **changed}) == purchase


def test_latest_effective_primary_meter_is_used():
    rows_by_key, _ = build_rows()
    assert (
        rows_by_key[H100, "on_demand"].usd_per_hour == 98.32
    )  # not 120 of 2027, 110 of 2023, 97 of another meter
    expired = copy.deepcopy(ITEMS)
    expired[0]["effectiveEndDate"] = "2026-10-01T00:00:00Z"
    assert build_rows(expired)[0][H100, "on_demand"].usd_per_hour == 110


def test_price_in_another_currency_is_left_out():
    _, left_out = build_rows()
    assert any("Standard_NC48ads_A100_v4" in reason and "no amount of USD" in reason for reason in left_out)


def test_link_to_another_host_is_not_followed(start_fake_server, http_client):
    fake_server = start_fake_server(
        lambda *_: {"Items": [], "NextPageLink": "http://elsewhere.example/api?secret=1"}
    )
    with pytest.raises(SourceUnavailable, match=r"elsewhere\.example/api is repeated or on another host"):
        AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices").fetch_region_prices(
            "eastus", TODAY
        )
    assert len(fake_server.requests) == 1


def test_link_to_the_same_page_ends_the_reading(start_fake_server, http_client):
    fake_server = start_fake_server(
        lambda path, _: {"Items": [], "NextPageLink": f"{fake_server.base}{path}?$skip=1"}
    )
    with pytest.raises(SourceUnavailable, match="is repeated or on another host"):
        AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices").fetch_region_prices(
            "eastus", TODAY
        )
    assert len(fake_server.requests) == 2


def test_number_of_pages_is_bounded(start_fake_server, http_client):
    numbers = iter(range(10**6))
    fake_server = start_fake_server(
        lambda path, _: {"Items": [], "NextPageLink": f"{fake_server.base}{path}?$skip={next(numbers)}"}
    )
    with pytest.raises(SourceUnavailable, match="more than 50 pages"):
        AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices").fetch_region_prices(
            "eastus", TODAY
        )
    assert len(fake_server.requests) == 50


@pytest.mark.parametrize("page", [{}, {"Items": None}, {"Items": {"no": "list"}}])
def test_page_without_items_makes_the_source_unavailable(start_fake_server, http_client, page):
    fake_server = start_fake_server(lambda *_: page)
    with pytest.raises(SourceUnavailable, match="without Items"):
        AzureRetailPriceSource(http_client, fake_server.base).fetch_region_prices("eastus", TODAY)


@pytest.mark.parametrize("region", ["us-east-1", "eastus' or 1 eq 1 or 'x", "EastUS", ""])
def test_region_cannot_inject_into_the_filter(region):
    with pytest.raises(RequestRejected, match="not a region"):
        AzureRetailPriceSource().fetch_region_prices(region, TODAY)


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))


@given(st.dictionaries(st.sampled_from(sorted({*ITEMS[0], "reservationTerm"})), JUNK))
def test_items_with_any_values_give_valid_prices_or_none(changed):
    reader = AzureItemReader("eastus", DAY.isoformat(), "a test")
    for row in reader.build_price_rows([{**ITEMS[0], **changed}]):
        assert isinstance(row.usd_per_hour, float)
        assert row.item.startswith("Standard_N")

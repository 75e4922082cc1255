from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_check_context_without_prices
from gpufleet.catalog.prices.refresh import RequestRejected, SourceUnavailable
from gpufleet.catalog.prices.refresh.azure import (
    AzureItemReader,
    AzureRetailPriceSource,
    build_region_query_filter,
    find_purchase_kind,
)
from gpufleet.catalog.prices.refresh.azure_parts import build_part_filters, find_parts

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
    assert {row.item for row in batch.rows if row.kind == "machine"} == {
        H100,
        f"{H100}:windows",
        "Standard_NC24ads_A100_v4",
        "Standard_D4s_v5",
        "Standard_D4s_v5:windows",
    }
    assert len(fake_server.requests) == 2 * (2 + len(build_part_filters("eastus")))
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
        ({"productName": "Virtual Machines NDsr H100 v5 Series Windows"}, "on_demand"),
        ({"armSkuName": "Standard_D4s_v5"}, "on_demand"),
        ({"armSkuName": "Basic_A1"}, "on_demand"),
        ({"armSkuName": "Dsv3_Type1"}, None),
        ({"armSkuName": "Standard_\x1b[2J"}, None),
        (
            {
                "productName": "NDsr H100 v5 Series Windows",
                "type": "Reservation",
                "reservationTerm": "1 Year",
            },
            None,
        ),
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


def test_windows_is_an_item_of_its_own():
    rows_by_key, _ = build_rows()
    assert rows_by_key[f"{H100}:windows", "on_demand"].usd_per_hour == 102.736
    assert rows_by_key[f"{H100}:windows", "spot"].usd_per_hour == 66.3
    assert rows_by_key["Standard_D4s_v5", "on_demand"].usd_per_hour == 0.192
    assert rows_by_key["Standard_D4s_v5:windows", "on_demand"].usd_per_hour == 0.376


def test_windows_is_billed_on_top_of_a_reservation():
    rows_by_key, _ = build_rows()
    reserved = rows_by_key["Standard_D4s_v5", "reserved_1y"].usd_per_hour
    assert reserved == pytest.approx(992 / 8760, abs=1e-6)
    with_windows = rows_by_key["Standard_D4s_v5:windows", "reserved_1y"]
    assert with_windows.usd_per_hour == pytest.approx(reserved + 0.376 - 0.192, abs=2e-6)
    assert with_windows.usd_per_hour == pytest.approx(0.29724, abs=1e-5)  # a price table of 2025-05-28
    assert with_windows.source.endswith(";reservation-plus-Windows")


def test_second_price_of_the_same_meter_is_reported():
    (item,) = [item for item in ITEMS if item["armSkuName"] == "Standard_D4s_v5"
               and item["type"] == "Consumption" and "Windows" not in item["productName"]]  # fmt: skip
    rows_by_key, left_out = build_rows([item, {**item, "retailPrice": 0.5}])
    assert rows_by_key["Standard_D4s_v5", "on_demand"].usd_per_hour == 0.192
    assert left_out == ["azure eastus Standard_D4s_v5 on_demand: two prices, 0.5 is not used"]


PART_ITEMS = read_case("azure_parts.json")["items"]


def test_parts_are_priced_per_unit_and_hour():
    reader = AzureItemReader("eastus", DAY.isoformat(), "a test")
    rows = {row.item: row for row in reader.build_part_rows(PART_ITEMS)}
    assert {item: (row.unit, row.usd_per_hour) for item, row in rows.items()} == {
        "premium-ssd-p10": ("disk", pytest.approx(19.71 / 730)),
        "standard-ssd-e30": ("disk", pytest.approx(76.8 / 730)),
        "standard-hdd-s4": ("disk", pytest.approx(1.54 / 730)),
        "public_ipv4": ("address", 0.005),
        "public_ipv4:basic_static": ("address", 0.0036),
        "nat_gateway": ("gateway", 0.045),
        "nat_gateway:gib": ("gib_processed", 0.045),
        "kubernetes_cluster": ("cluster", 0.1),
        "bastion": ("host", 0.19),
        "bastion:standard": ("host", 0.29),
        "load_balancer:standard": ("load_balancer", 0.025),  # of all regions
        "load_balancer:standard:rule": ("rule", 0.01),
        "load_balancer:gib": ("gib", 0.005),
    }
    assert {row.kind for row in rows.values()} == {"part"}


@pytest.mark.parametrize("regions", [("eastus", "Global"), ("Global", "eastus"), ("eastus", "eastus")])
def test_each_price_of_a_part_is_divided_by_its_own_unit(regions):
    item = next(item for item in PART_ITEMS if any(part.name == "nat_gateway" for part in find_parts(item)))
    hourly = {**item, "armRegionName": regions[0], "unitOfMeasure": "1 Hour", "retailPrice": 0.045}
    monthly = {**item, "armRegionName": regions[1], "unitOfMeasure": "1/Month", "retailPrice": 32.85}
    for items in ([hourly, monthly], [monthly, hourly]):
        (row,) = AzureItemReader("eastus", DAY.isoformat(), "a test").build_part_rows(items)
        assert row.usd_per_hour == pytest.approx(0.045)


def test_refreshed_parts_pass_the_checks():
    reader = AzureItemReader("eastus", DAY.isoformat(), "a test")
    rows = list(reader.build_part_rows(PART_ITEMS))
    known = load_check_context_without_prices()
    assert [(finding.code, finding.row.item) for finding in check_prices(rows, known)] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"skuName": "P10 ZRS"},
        {"meterName": "P10 LRS Disk Mount"},
        {"unitOfMeasure": "10K"},
        {"productName": "Premium SSD Managed Disks Snapshots"},
        {"type": "Reservation"},
        {"skuName": None},
    ],
)
def test_other_items_are_not_parts(changed):
    (part,) = find_parts(PART_ITEMS[0])
    assert (part.name, part.unit, part.divisor) == ("premium-ssd-p10", "disk", 730)
    assert list(find_parts({**PART_ITEMS[0], **changed})) == []


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


def test_number_of_pages_is_bounded(start_fake_server, http_client, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.azure.MAX_PAGES", 7)
    numbers = iter(range(10**6))
    fake_server = start_fake_server(
        lambda path, _: {"Items": [], "NextPageLink": f"{fake_server.base}{path}?$skip={next(numbers)}"}
    )
    with pytest.raises(SourceUnavailable, match="more than 7 pages"):
        AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices").fetch_region_prices(
            "eastus", TODAY
        )
    assert len(fake_server.requests) == 7


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
        assert row.item.startswith(("Standard_", "Basic_"))

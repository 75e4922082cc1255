"""Test Azure's parts and licence fees against a fake that evaluates filters as the real API does."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_price_check_context
from gpufleet.catalog.prices.part_rule import PartName
from gpufleet.catalog.prices.refresh import RequestRejected, azure_parts
from gpufleet.catalog.prices.refresh.azure import AzureItemReader, AzureRetailPriceSource
from gpufleet.catalog.prices.refresh.azure_licence import LICENCE_FILTER, read_licence_fee
from gpufleet.catalog.prices.refresh.azure_parts import build_part_filters, find_divisor, list_part_meters

from .conftest import CASES, TODAY
from .retail_price_api import FilterError, FilterParser, build_retail_price_api
from .test_azure import PAGES

NUMBERS = ("tierMinimumUnits", "retailPrice")


def read_case_items():
    """Return the items of the case file, and the parts that each prices."""
    with (CASES / "azure_part_items.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [
        (build_item(**{key: row[key] for key in row if key not in {"part", "note"}}), row["part"].split())
        for row in rows
    ]


def build_item(**cells):
    numbers = {key: float(cells[key]) for key in NUMBERS if key in cells}
    return {
        "currencyCode": "USD", "type": "Consumption", "armSkuName": "", "isPrimaryMeterRegion": True,
        "effectiveStartDate": "2025-06-01T00:00:00Z", "tierMinimumUnits": 0.0, **cells, **numbers,
    }  # fmt: skip


def read_queried_meters():
    """Return the names that other programs query the real API with, and the parts that they are."""
    with (CASES / "azure_queried_meters.csv").open() as file:
        return list(csv.DictReader(file))


CASE_ITEMS = read_case_items()
LICENCES = [
    ("Red Hat Enterprise Linux", "2 vCPU VM", "2 vCPU VM License", 0.0288),
    ("Red Hat Enterprise Linux", "4 vCPU VM", "4 vCPU VM License", 0.0576),
    ("Red Hat Enterprise Linux", "4 vCPU VM", "4 vCPU VM BYOS License", 0.01),
    ("Red Hat Enterprise Linux", "1-4 vCPU VM", "1-4 vCPU VM License", 0.06),
    ("SUSE Linux Enterprise Server Standard", "1-2 vCPU VM", "1-2 vCPU VM Support", 0.065),
    ("SUSE Linux Enterprise Server Standard", "3-4 vCPU VM", "3-4 vCPU VM Support", 0.125),
    ("SUSE Linux Enterprise Server Priority", "3-4 vCPU VM", "3-4 vCPU VM Support", 0.2),
]
LICENCE_ITEMS = [
    build_item(serviceName="Virtual Machines Licenses", productName=product, skuName=sku, meterName=meter,
               unitOfMeasure="1 Hour", retailPrice=usd, armRegionName="")
    for product, sku, meter, usd in LICENCES
]  # fmt: skip


@pytest.fixture
def start_api(start_fake_server, http_client):
    def start(items):
        fake_server = start_fake_server(lambda *_: {})
        fake_server.serve = build_retail_price_api(items, lambda: fake_server.base)
        return fake_server, AzureRetailPriceSource(http_client, f"{fake_server.base}/api/retail/prices")

    return start


@pytest.fixture
def part_rows(start_api):
    _, source = start_api([item for item, _ in CASE_ITEMS])
    return {row.item: row for row in source.fetch_region_prices("eastus", TODAY).rows}


def test_parts_of_all_services_are_read_and_no_other_item(part_rows):
    assert set(part_rows) == {part for _, parts in CASE_ITEMS for part in parts}


@pytest.mark.parametrize("meter", read_queried_meters(), ids=lambda meter: meter["meterName"])
def test_rules_know_the_names_that_other_programs_query_the_api_with(meter):
    names = {rule.find_name(meter) for rule in list_part_meters()} - {None}
    assert names == set(meter["parts"].split())


@pytest.mark.parametrize(
    ("part", "unit", "usd"),
    [
        ("postgresql_flexible:vcore:dadsv5", "vcore", 0.1015),
        ("sql_database:dtu:standard", "dtu", 0.002016),
        ("sql_database:dtu:premium", "dtu", 0.005),
        ("redis:premium_p1", "node", 0.277),
        ("container_apps:request", "request", 4e-7),
        ("functions:gib_second", "gib_second", 1.6e-5),  # not the free grant
        ("functions:execution", "execution", 2e-7),
        ("blob_storage:lrs_hot", "gib", 0.0208 / 730),
        ("blob_storage:lrs_hot:write", "operation", 5.5e-6),
        ("mysql_flexible:iops", "iops", 0.06 / 730),
        ("sql_database:licence:gp", "vcore", 0.099966),  # of all regions
        ("app_service:windows_container:p1mv3", "instance", 0.346),  # the meter of Windows
        ("egress:gib", "gib_sent", 0.087),  # after the free 100 GB
        ("dns:zone", "zone", 0.5 / 730),  # the unit is "1": a month
        ("synapse:serverless_sql_tib", "tib", 5),
        ("sql_database:vcore:bc_m", "vcore", 1.67878125),  # an eighth of eight vCores
        ("signalr:standard_s1", "unit", 1.61 / 24),
        ("fabric:f64", "capacity", 64 * 0.28),
        ("fabric:f2048", "capacity", 2048 * 0.28),
    ],
)
def test_price_is_per_unit_and_hour_or_use(part_rows, part, unit, usd):
    assert (part_rows[part].unit, part_rows[part].usd_per_hour) == (unit, pytest.approx(usd))


def test_refreshed_parts_have_the_embedded_prices(part_rows):
    embedded = {part: catalog.find_cloud_part_price("azure", "eastus", part) for part in part_rows}
    compared = {
        part: (part_rows[part].usd_per_hour, price.usd_per_hour, part_rows[part].unit, price.unit)
        for part, price in embedded.items()
        if price
    }
    assert len(compared) >= 85
    assert [part for part, (usd, known, unit, known_unit) in compared.items()
            if unit != known_unit or usd != pytest.approx(known, rel=0.07)] == []  # fmt: skip


def test_refreshed_parts_pass_the_checks(part_rows):
    rows = list(part_rows.values())
    findings = check_prices(rows, load_price_check_context(None, rows))
    assert [(finding.code, finding.row.item) for finding in findings] == []


def test_a_bad_price_of_a_new_part_is_found(part_rows):
    rows = [row for row in part_rows.values() if row.item != "redis:premium_p1"]
    part = part_rows["redis:premium_p1"]
    wrong = replace(part, usd_per_hour=part.usd_per_hour * 730)
    findings = check_prices([*rows, wrong], load_price_check_context(None, [*rows, wrong]))
    assert [(finding.code, finding.row.item) for finding in findings] == [("jump", "redis:premium_p1")]


def test_every_filter_is_accepted_by_the_server_and_finds_its_items():
    items = [item for item, parts in CASE_ITEMS if parts]
    filters = [FilterParser(text).parse() for text in build_part_filters("eastus")]
    assert [item for item in items if sum(condition(item) for condition in filters) != 1] == []
    licences = FilterParser(LICENCE_FILTER).parse()
    assert sum(map(licences, LICENCE_ITEMS)) == len(LICENCE_ITEMS) - 1  # not SUSE Priority
    assert max(map(len, build_part_filters("southcentralus"))) < 1500


@pytest.mark.parametrize(
    "text",
    ["serviceName eq Storage", "serviceName eq 'a' or", "retailPrice eq '1'", "(serviceName eq 'a'", "x"],
)
def test_the_fake_refuses_what_is_not_a_filter(text):
    with pytest.raises(FilterError):
        FilterParser(text).parse()


def test_services_without_regions_are_read_into_the_region_global(start_api):
    _, source = start_api([item for item, _ in CASE_ITEMS])
    rows = source.fetch_region_prices("eastus", TODAY).rows
    worldwide = {"cdn:gib", "dns:query", "dns:zone", "traffic_manager:query", "traffic_manager:data_point"}
    assert {row.item for row in rows if row.region == "global"} == {
        *worldwide,
        "traffic_manager:endpoint:azureendpoints",
        "traffic_manager:endpoint:externalendpoints",
        "front_door:standard_azurefrontdoor",
        "front_door:gib:standard_azurefrontdoor",
        "front_door:request:premium_azurefrontdoor",
    }
    assert not {row.item for row in rows if row.region == "eastus"} & {"cdn:gib", "dns:zone"}


def test_the_earlier_rule_of_a_part_counts_in_any_order(start_api):
    items = [item for item, parts in CASE_ITEMS if parts == ["blob_storage:lrs_hot"]]
    for order in (items, items[::-1]):
        _, source = start_api(order)
        batch = source.fetch_region_prices("eastus", TODAY)
        assert [row.usd_per_hour for row in batch.rows] == [pytest.approx(0.0208 / 730)]
        assert batch.left_out == ()


def test_an_item_is_matched_with_the_rules_once(monkeypatch):
    items = [item for item, _ in CASE_ITEMS]
    calls = []
    find_parts = azure_parts.find_parts
    monkeypatch.setattr(azure_parts, "find_parts", lambda item: calls.append(item) or find_parts(item))
    assert list(AzureItemReader("eastus", TODAY.day.isoformat(), "a test").build_part_rows(items))
    assert len(calls) == len(items)


def test_a_refused_filter_ends_the_region(start_api):
    _, source = start_api([])
    with pytest.raises(RequestRejected, match="HTTP 400"):
        list(source.fetch_price_items("eastus", "serviceName equals 'Storage'"))


def test_a_part_on_a_later_page_is_read(start_api):
    other, part = CASE_ITEMS[4][0], CASE_ITEMS[0][0]
    fake_server, source = start_api([other] * 1500 + [part])
    assert [row.item for row in source.fetch_region_prices("eastus", TODAY).rows] == [
        "postgresql_flexible:b1ms"
    ]
    assert any("skip=1000" in request for request in fake_server.requests)


def test_red_hat_and_suse_are_billed_on_top_of_the_machine(start_api):
    machines = [item for page in PAGES for item in page]
    _, source = start_api([*machines, *LICENCE_ITEMS])
    rows = {(row.item, row.purchase): row for row in source.fetch_region_prices("eastus", TODAY).rows}
    machine = "Standard_D4s_v5"
    linux = rows[machine, "on_demand"].usd_per_hour
    assert rows[f"{machine}:rhel", "on_demand"].usd_per_hour == pytest.approx(linux + 0.0576)
    assert rows[f"{machine}:sles", "on_demand"].usd_per_hour == pytest.approx(linux + 0.125)
    reserved = rows[machine, "reserved_1y"].usd_per_hour
    assert rows[f"{machine}:rhel", "reserved_1y"].usd_per_hour == pytest.approx(reserved + 0.0576)
    assert rows[f"{machine}:rhel", "on_demand"].source.endswith(";plus-licence")
    assert not [key for key in rows if "windows:" in key[0] or (":rhel" in key[0] and key[1] == "spot")]
    checked = [row for row in rows.values() if row.item.startswith(machine)]
    assert not [
        each
        for each in check_prices(checked, load_price_check_context(None, checked))
        if each.row.kind == "machine"
    ]


def test_two_fees_of_a_size_leave_it_out(start_api):
    machines = [item for page in PAGES for item in page]
    second = {
        **LICENCE_ITEMS[1],
        "skuName": "4-vCPU VM",
        "meterName": "4-vCPU VM License",
        "retailPrice": 0.05,
    }
    _, source = start_api([*machines, *LICENCE_ITEMS, second])
    items = {row.item for row in source.fetch_region_prices("eastus", TODAY).rows}
    assert "Standard_D4s_v5:rhel" not in items
    assert "Standard_D4s_v5:sles" in items


@pytest.mark.parametrize(
    "changed",
    [{"type": "Reservation"}, {"unitOfMeasure": "1/Month"}, {"skuName": None}, {"meterName": "2 vCPU VM"}],
)
def test_other_items_are_not_licence_fees(changed):
    assert read_licence_fee(LICENCE_ITEMS[0], 0.0288).usd_per_hour == 0.0288
    assert read_licence_fee({**LICENCE_ITEMS[0], **changed}, 0.0288) is None


@pytest.mark.parametrize(
    ("measure", "per", "unit", "divisor"),
    [
        ("1 Hour", "time", "node", 1),
        ("1/Hour", "time", "node", 1),
        ("100 Hours", "time", "node", 100),
        ("1/Month", "time", "disk", 730),
        ("1 GB/Month", "time", "gib", 730),
        ("1/Day", "time", "dtu", 24),
        ("1 GB Hour", "time", "gib", 1),
        ("10K", "use", "operation", 10_000),
        ("1M", "use", "request", 1_000_000),
        ("1 GiB Second", "use", "gib_second", 1),
        ("1 Hour", "use", "vcore_hour", 1),
        ("1 Hour", "use", "request", None),
        ("10K", "time", "disk", None),
        ("0 Hours", "time", "node", None),
        ("1 TB/Month", "time", "gib", None),
        ("1 TB", "use", "tib", 1),
        ("1 GB", "use", "tib", None),
        ("1", "time", "zone", 730),
        ("10", "time", "zone", None),
        ("", "time", "node", None),
        ("1/Fortnight", "time", "node", None),
    ],
)
def test_unit_of_measure_is_read(measure, per, unit, divisor):
    assert find_divisor(measure, PartName("a", unit, per)) == divisor


def test_rules_name_only_groups_of_their_patterns():
    for meter in list_part_meters():
        groups = {*meter.product.groupindex, *meter.sku.groupindex}
        assert set(re.findall(r"\{(\w+)\}", meter.name.template)) == groups, meter.name.template

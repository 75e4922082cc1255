"""Test the AWS price sources with botocore's Stubber, which checks arguments and responses."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from functools import cache

import boto3
import pytest
from botocore.stub import ANY, Stubber
from moto import mock_aws

from gpufleet import catalog
from gpufleet.catalog.prices.refresh import MissingCredentials, RequestRejected, SourceUnavailable
from gpufleet.catalog.prices.refresh.aws import RegionMachineTypes, create_aws_client
from gpufleet.catalog.prices.refresh.aws_capacity_blocks import AwsCapacityBlockSource
from gpufleet.catalog.prices.refresh.aws_capacity_blocks import median_usd_per_hour as block_price
from gpufleet.catalog.prices.refresh.aws_price_list import AwsPriceListSource, AwsProductReader
from gpufleet.catalog.prices.refresh.aws_reserved import AwsReservedSource
from gpufleet.catalog.prices.refresh.aws_reserved import build_reserved_price_rows as reserved_rows
from gpufleet.catalog.prices.refresh.aws_savings import AwsSavingsPlanSource
from gpufleet.catalog.prices.refresh.aws_savings import build_savings_plan_price_rows as savings_rows
from gpufleet.catalog.prices.refresh.aws_spot import AwsSpotSource, list_aws_machine_types
from gpufleet.catalog.prices.refresh.aws_spot import build_spot_price_rows as spot_rows

from .conftest import DAY, TODAY, FakeResponse, read_case

PRODUCTS = read_case("aws_products.json")["products"]
HOME = "us-east-1"
AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch):
    """Do not wait between retries, neither in botocore nor in gpufleet."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.aws.BAD_PAGE_WAITS_S", (0.0, 0.0))


@cache
def create_real_client(service):
    """Make a client once: reading EC2's model takes a third of a second."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": HOME}
    return boto3.client(service, **keys)


class StubbedAws:
    """Real clients whose answers are stubbed: one for each service, whatever the region."""

    def __init__(self):
        self.clients = {name: create_real_client(name) for name in ("pricing", "ec2", "savingsplans")}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    def __call__(self, service, region):
        return self.clients[service]

    def answer(self, service, call, *pages, token="NextToken", expected_request=ANY):
        for at, page in enumerate(pages, 1):
            more = {token: f"page {at}"} if at < len(pages) else {}
            expected = (
                None
                if expected_request is ANY
                else {**expected_request, **({token: f"page {at - 1}"} if at > 1 else {})}
            )
            self.stubs[service].add_response(call, {**page, **more}, expected)

    def refuse(self, service, call, code, status=400):
        self.stubs[service].add_client_error(call, code, "no", status)


@pytest.fixture
def stubbed_aws():
    clients = StubbedAws()
    yield clients
    for stub in clients.stubs.values():
        stub.deactivate()
        stub.assert_no_pending_responses()


def stub_offerings(stubbed, *names):
    stubbed.answer(
        "ec2",
        "describe_instance_type_offerings",
        {"InstanceTypeOfferings": [{"InstanceType": name, "Location": HOME} for name in names]},
        expected_request={"LocationType": "region", "MaxResults": 1000},
    )  # fmt: skip


def stub_price_list(stubbed, *pages):
    stubbed.answer(
        "pricing",
        "get_products",
        *({"PriceList": [json.dumps(product) for product in page]} for page in pages),
    )
    for _ in range(3):  # Windows, RHEL, SUSE
        stubbed.answer("pricing", "get_products", {"PriceList": []})


def rows_by_item(batch):
    return {(row.item, row.purchase, row.upfront): row for row in batch.rows}


def test_price_list_gives_on_demand_and_reserved_prices(stubbed_aws):
    stub_price_list(stubbed_aws, PRODUCTS[:3], PRODUCTS[3:])
    stub_offerings(stubbed_aws, "p5.48xlarge", "g5.2xlarge")
    batch = AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws)).fetch_region_prices(HOME, TODAY)
    rows = rows_by_item(batch)
    assert rows["p5.48xlarge", "on_demand", "none"].usd_per_hour == 55.04
    assert rows["p5.48xlarge", "reserved_1y", "none"].usd_per_hour == 43.15
    partial = rows["p5.48xlarge", "reserved_1y", "partial"]
    assert (partial.usd_per_hour, partial.upfront_usd) == (pytest.approx(20.5 + 179580 / 8760), 179580)
    assert rows["p5.48xlarge", "reserved_1y", "all"].usd_per_hour == pytest.approx(40)
    assert (
        rows["p5.48xlarge", "reserved_3y", "none"].usd_per_hour == 29
    )  # the standard one, not the convertible
    assert rows["p5.48xlarge", "on_demand", "none"].facts.accelerators == 8
    assert rows["p4d.24xlarge", "on_demand", "none"].facts.memory_gib == 1152


def test_price_list_request_has_the_expected_filters(stubbed_aws):
    calls = []
    stubbed_aws.clients["pricing"].meta.events.register(
        "provide-client-params.pricing.GetProducts", lambda params, **_: calls.append(copy.deepcopy(params))
    )
    stub_price_list(stubbed_aws, [])
    assert (
        AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws))
        .fetch_region_prices("eu-west-1", TODAY)
        .rows
        == ()
    )
    request = {condition["Field"]: condition["Value"] for condition in calls[0]["Filters"]}
    assert request == {
        "operatingSystem": "Linux", "tenancy": "Shared", "capacitystatus": "Used", "preInstalledSw": "NA",
        "marketoption": "OnDemand", "licenseModel": "No License required", "regionCode": "eu-west-1",
    }  # fmt: skip
    assert calls[1]["Filters"] != calls[0]["Filters"]


def test_capacity_block_price_of_zero_is_not_an_on_demand_price(stubbed_aws):
    """Without ``marketoption`` p5.48xlarge also stands at 0.00: checked again, should the filter not hold."""
    stub_price_list(stubbed_aws, [PRODUCTS[1], PRODUCTS[2]])
    stub_offerings(stubbed_aws)
    batch = AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws)).fetch_region_prices(HOME, TODAY)
    assert batch.rows == ()


def test_priced_but_not_offered_machine_is_reported(stubbed_aws):
    stub_price_list(stubbed_aws, PRODUCTS)
    stub_offerings(stubbed_aws, "p5.48xlarge")
    rows = rows_by_item(
        AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws)).fetch_region_prices(HOME, TODAY)
    )
    assert rows["p5.48xlarge", "on_demand", "none"].offered is True
    assert rows["p4d.24xlarge", "on_demand", "none"].offered is False


def test_prices_are_read_without_permission_to_list_offerings(stubbed_aws):
    stub_price_list(stubbed_aws, PRODUCTS)
    stubbed_aws.refuse("ec2", "describe_instance_type_offerings", "UnauthorizedOperation", 403)
    rows = rows_by_item(
        AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws)).fetch_region_prices(HOME, TODAY)
    )
    assert rows["p5.48xlarge", "on_demand", "none"].offered is None


def test_machine_with_two_prices_is_left_out():
    reader = AwsProductReader(HOME, DAY.isoformat(), "a test")
    assert "g6.2xlarge" not in {row.item for row in reader.build_price_rows(PRODUCTS, None)}
    assert reader.left_out == ["aws us-east-1 g6.2xlarge on_demand: 2 prices for one purchase option"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_invalid_entry_of_the_price_list_makes_the_source_unavailable(stubbed_aws, text):
    stubbed_aws.answer("pricing", "get_products", {"PriceList": [text]})
    with pytest.raises(SourceUnavailable):
        AwsPriceListSource(stubbed_aws, RegionMachineTypes(stubbed_aws)).fetch_region_prices(HOME, TODAY)


def spot_price_change(name, zone, usd, hour, product="Linux/UNIX"):
    at = AT.replace(hour=hour)
    return {
        "InstanceType": name, "AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": at,
        "ProductDescription": product,
    }  # fmt: skip


def test_spot_price_is_the_median_of_the_latest_zone_prices(stubbed_aws):
    history = [
        spot_price_change("g5.2xlarge", "us-east-1a", "0.40", 2),
        spot_price_change("g5.2xlarge", "us-east-1a", "0.50", 8),
        spot_price_change("g5.2xlarge", "us-east-1b", "0.60", 1),
        spot_price_change("g5.2xlarge", "us-east-1c", "0.90", 3),
        spot_price_change("g5.2xlarge", "us-east-1d", "9.90", 3, "Windows"),
        spot_price_change("p5.48xlarge", "us-east-1a", "20.0", 3),
        spot_price_change("m5.large", "us-east-1a", "0.09", 3, "Red Hat Enterprise Linux (Amazon VPC)"),
        spot_price_change("m5.large", "us-east-1a", "0.01", 3, "Windows with SQL Server"),
    ]
    stubbed_aws.answer(
        "ec2",
        "describe_spot_price_history",
        {"SpotPriceHistory": history[:3]},
        {"SpotPriceHistory": history[3:]},
        expected_request={
            "ProductDescriptions": ["Linux/UNIX", "Windows", "Red Hat Enterprise Linux", "SUSE Linux"],
            "StartTime": ANY, "EndTime": ANY,
            "MaxResults": 1000,
        },
    )  # fmt: skip
    rows = {row.item: row for row in AwsSpotSource(stubbed_aws).fetch_region_prices(HOME, TODAY).rows}
    assert rows["g5.2xlarge"].usd_per_hour == 0.6
    assert rows["g5.2xlarge"].source == "aws-spot-history;median-of-3-AZ"
    assert rows["p5.48xlarge"].source.endswith("median-of-1-AZ")
    assert rows["g5.2xlarge:windows"].usd_per_hour == 9.9
    assert rows["m5.large:rhel"].usd_per_hour == 0.09


def test_reservation_price_is_split_into_upfront_and_recurring(stubbed_aws):
    def offering(kind, fixed, hourly, years=1, **more):
        charges = [{"Amount": hourly, "Frequency": "Hourly"}] if hourly else []
        return {
            "InstanceType": "p5.48xlarge", "Duration": years * 31536000, "OfferingType": kind, "FixedPrice": fixed,
            "RecurringCharges": charges, "UsagePrice": 0.0, "CurrencyCode": "USD", "InstanceTenancy": "default",
            "OfferingClass": "standard", "ProductDescription": "Linux/UNIX", "Marketplace": False, "Scope": "Region",
            **more,
        }  # fmt: skip

    page = [
        offering("No Upfront", 0.0, 43.15),
        offering("Partial Upfront", 179580.0, 20.5),
        offering("All Upfront", 1051200.0, 0, 3),
        offering("No Upfront", 0.0, 10.0, Marketplace=True),
        offering("No Upfront", 0.0, 11.0, Scope="Availability Zone", AvailabilityZone="us-east-1a"),
        offering("No Upfront", 0.0, 12.0, ProductDescription="Windows"),
        offering("No Upfront", 0.0, 13.0, OfferingClass="convertible"),
        offering("Heavy Utilization", 0.0, 14.0),
    ]
    stubbed_aws.answer(
        "ec2", "describe_reserved_instances_offerings",
        {"ReservedInstancesOfferings": page[:2]}, {"ReservedInstancesOfferings": page[2:]},
        expected_request={
            "Filters": [{"Name": "instance-type", "Values": list_aws_machine_types()}],
            "ProductDescription": "Linux/UNIX", "InstanceTenancy": "default", "OfferingClass": "standard",
            "IncludeMarketplace": False, "MaxResults": 100,
        },
    )  # fmt: skip
    rows = rows_by_item(AwsReservedSource(stubbed_aws).fetch_region_prices(HOME, TODAY))
    assert {key[1:]: row.usd_per_hour for key, row in rows.items()} == {
        ("reserved_1y", "none"): 43.15, ("reserved_1y", "partial"): 41.0, ("reserved_3y", "all"): 40.0
    }  # fmt: skip
    assert rows["p5.48xlarge", "reserved_3y", "all"].upfront_usd == 1051200


def test_machine_with_two_offerings_of_one_kind_is_left_out():
    offering = {
        "InstanceType": "g5.xlarge",
        "Duration": 31536000,
        "OfferingType": "No Upfront",
        "ProductDescription": "Linux/UNIX",
    }
    left_out = []
    price_rows = list(
        reserved_rows(
            [{**offering, "FixedPrice": 1.0}, {**offering, "FixedPrice": 2.0}],
            HOME,
            "2026-11-21",
            "t",
            left_out,
        )
    )
    assert price_rows == []
    assert left_out == ["aws us-east-1 g5.xlarge reserved_1y none: 2 prices"]


def savings_plan_rate(
    usd="0.7", usage="BoxUsage:g5.2xlarge", kind="Compute", payment="No Upfront", years=1, **properties
):
    known = {
        "region": HOME,
        "instanceType": "g5.2xlarge",
        "productDescription": "Linux/UNIX",
        "tenancy": "shared",
    }
    return {
        "savingsPlanOffering": {
            "offeringId": "o", "paymentOption": payment, "planType": kind, "durationSeconds": years * 31536000,
            "currency": "USD",
        },
        "rate": usd, "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2", "usageType": usage,
        "operation": "RunInstances", "properties": [{"name": k, "value": v} for k, v in (known | properties).items()],
    }  # fmt: skip


def test_savings_plan_price_is_the_compute_rate(stubbed_aws):
    price_rows = [
        savings_plan_rate(),
        savings_plan_rate("0.65", payment="All Upfront"),
        savings_plan_rate("0.5", years=3),
        savings_plan_rate("0.6", kind="EC2Instance"),
        savings_plan_rate("0.1", usage="UnusedBox:g5.2xlarge"),
        savings_plan_rate("0.2", tenancy="dedicated"),
        savings_plan_rate("0.3", region="eu-west-1"),
        savings_plan_rate("0.4", productDescription="Windows with SQL Server Web"),
        savings_plan_rate("0.9", productDescription="Windows") | {"operation": "RunInstances:0002"},
        savings_plan_rate("0.8", productDescription="Windows") | {"operation": "RunInstances:0800"},
    ]
    calls = []
    stubbed_aws.clients["savingsplans"].meta.events.register(
        "provide-client-params.savingsplans.DescribeSavingsPlansOfferingRates",
        lambda params, **_: calls.append(copy.deepcopy(params)),
    )
    stubbed_aws.answer(
        "savingsplans", "describe_savings_plans_offering_rates",
        {"searchResults": price_rows[:3]}, {"searchResults": price_rows[3:]}, token="nextToken",
    )  # fmt: skip
    rows = rows_by_item(AwsSavingsPlanSource(stubbed_aws).fetch_region_prices(HOME, TODAY))
    assert rows.pop(("g5.2xlarge:windows", "savings_plan_1y", "none")).usd_per_hour == 0.9
    assert {key[1:]: row.usd_per_hour for key, row in rows.items()} == {
        ("savings_plan_1y", "none"): 0.7, ("savings_plan_1y", "all"): 0.65, ("savings_plan_3y", "none"): 0.5
    }  # fmt: skip
    assert rows["g5.2xlarge", "savings_plan_1y", "all"].upfront_usd == pytest.approx(0.65 * 8760)
    request = {filter_["name"]: filter_["values"] for filter_ in calls[0]["filters"]}
    assert request["region"] == [HOME]
    assert request["productDescription"] == [
        "Linux/UNIX",
        "Windows",
        "Red Hat Enterprise Linux",
        "SUSE Linux",
    ]
    assert "instanceType" not in request
    assert calls[1]["nextToken"] == "page 1"


def test_machine_with_two_savings_plan_rates_is_left_out():
    left_out = []
    assert (
        list(savings_rows([savings_plan_rate(), savings_plan_rate("0.8")], HOME, "2026-11-21", "t", left_out))
        == []
    )
    assert left_out == ["aws us-east-1 g5.2xlarge savings_plan_1y none: 2 rates"]


def capacity_block(fee, hours=24, count=1, **more):
    return {
        "CapacityBlockOfferingId": "cb-1", "InstanceType": "p5.48xlarge", "AvailabilityZone": "us-east-1a",
        "InstanceCount": count, "CapacityBlockDurationHours": hours, "UpfrontFee": fee, "CurrencyCode": "USD",
        "Tenancy": "default", **more,
    }  # fmt: skip


def test_capacity_blocks_are_priced_by_machine_and_hour(stubbed_aws):
    for name in [name for name in list_aws_machine_types() if name.startswith(("p4", "p5", "p6", "trn"))]:
        if name == "p5.48xlarge":
            parameters = {
                "InstanceType": name,
                "InstanceCount": 1,
                "CapacityDurationHours": 24,
                "MaxResults": 100,
            }
            page = {
                "CapacityBlockOfferings": [
                    capacity_block("755.04"),
                    capacity_block("803.0"),
                    capacity_block("755.04"),
                ]
            }
            stubbed_aws.answer("ec2", "describe_capacity_block_offerings", page, expected_request=parameters)
        else:
            stubbed_aws.refuse("ec2", "describe_capacity_block_offerings", "InvalidParameterValue")
    (row,) = AwsCapacityBlockSource(stubbed_aws).fetch_region_prices(HOME, TODAY).rows
    assert (row.item, row.purchase, row.usd_per_hour) == ("p5.48xlarge", "capacity_block", 31.46)


def test_machine_without_an_offer_has_no_price():
    assert block_price([], "p5.48xlarge") is None
    assert block_price([capacity_block("1", hours=0)], "p5.48xlarge") is None
    assert block_price([capacity_block("100", hours=24, count=2)], "p5.48xlarge") == round(100 / 48, 6)


def test_region_that_rejects_every_machine_type_is_rejected(stubbed_aws):
    for name in list_aws_machine_types():
        if name.startswith(("p4", "p5", "p6", "trn")):
            stubbed_aws.refuse("ec2", "describe_capacity_block_offerings", "UnsupportedOperation")
    with pytest.raises(RequestRejected, match="UnsupportedOperation"):
        AwsCapacityBlockSource(stubbed_aws).fetch_region_prices(HOME, TODAY)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("AuthFailure", RequestRejected), ("OptInRequired", RequestRejected),
        ("UnauthorizedOperation", RequestRejected),
        ("ExpiredToken", MissingCredentials), ("InvalidClientTokenId", MissingCredentials),
        ("RequestLimitExceeded", SourceUnavailable),
        ("InternalError", SourceUnavailable),
    ],
)  # fmt: skip
def test_aws_error_codes_map_to_failures(stubbed_aws, code, fault):
    stubbed_aws.refuse("ec2", "describe_spot_price_history", code)
    with pytest.raises(fault):
        AwsSpotSource(stubbed_aws).fetch_region_prices(HOME, TODAY)


@pytest.mark.parametrize(
    "source",
    [AwsPriceListSource, AwsSpotSource, AwsReservedSource, AwsSavingsPlanSource, AwsCapacityBlockSource],
)
def test_missing_credentials_name_the_required_permission(source):
    with pytest.raises(MissingCredentials) as excinfo:
        source().fetch_region_prices(HOME, TODAY)
    assert "AWS_PROFILE" in excinfo.value.hint
    assert ":" in excinfo.value.hint.rpartition(" ")[2]


def test_repeated_pages_end_the_reading(stubbed_aws):
    for _ in range(2):
        stubbed_aws.stubs["ec2"].add_response(
            "describe_spot_price_history", {"SpotPriceHistory": [], "NextToken": "again"}
        )
    with pytest.raises(SourceUnavailable, match="repeats a page"):
        AwsSpotSource(stubbed_aws).fetch_region_prices(HOME, TODAY)


@pytest.fixture
def moto(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield


@pytest.mark.usefixtures("moto")
def test_spot_history_is_read_from_moto():
    rows = {row.item: row for row in AwsSpotSource().fetch_region_prices(HOME, TODAY).rows}
    assert rows["g5.2xlarge"].usd_per_hour == pytest.approx(0.00001)
    assert ";median-of-" in rows["g5.2xlarge"].source


@pytest.mark.usefixtures("moto")
def test_offerings_are_read_from_moto():
    machine_types = RegionMachineTypes().fetch_machine_types(HOME)
    assert "g5.2xlarge" in machine_types
    assert RegionMachineTypes().fetch_machine_types("eu-north-1") != machine_types


@pytest.mark.usefixtures("moto")
def test_reserved_offerings_of_moto_contain_no_accelerator_machine():
    """moto sells t3 and the like only: the filter, the pages and an empty answer are what is tried here."""
    offerings = create_aws_client("ec2", HOME).describe_reserved_instances_offerings()[
        "ReservedInstancesOfferings"
    ]
    assert offerings
    assert AwsReservedSource().fetch_region_prices(HOME, TODAY).rows == ()


def test_client_retries_after_throttling_and_a_truncated_page(start_fake_server, monkeypatch):
    """botocore itself against a loopback server: throttled, a server's fault, a page cut off, then whole."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    page = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(PRODUCTS[0])]}
    throttled = json.dumps({"__type": "ThrottlingException", "message": "Rate exceeded"}).encode()
    products = json.dumps(page).encode()
    fake_server = start_fake_server(
        lambda *_: page,
        [FakeResponse(throttled, 400), FakeResponse(b"", 503), FakeResponse(products, cut=40)],
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", fake_server.base)
    known = RegionMachineTypes(_types_by_region={HOME: frozenset({"p5.48xlarge"})})
    rows = rows_by_item(AwsPriceListSource(offerings=known).fetch_region_prices(HOME, TODAY))
    assert (
        rows["p5.48xlarge", "on_demand", "none"].usd_per_hour
        == catalog.find_machine_price("aws", HOME, "p5.48xlarge", "on_demand").usd_per_hour
    )
    assert len(fake_server.requests) == 7  # three bad ones, and a page for each of four systems
    assert all("AWSPriceListService.GetProducts" in target for target in fake_server.requests)


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"\xff"])
def test_page_that_stays_invalid_makes_the_source_unavailable(start_fake_server, monkeypatch, body):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    fake_server = start_fake_server(lambda *_: body)
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", fake_server.base)
    with pytest.raises(SourceUnavailable):
        AwsPriceListSource(offerings=RegionMachineTypes(_types_by_region={})).fetch_region_prices(HOME, TODAY)


def test_zones_without_a_spot_history_give_no_price():
    assert list(spot_rows([], HOME, "2026-11-21", "t")) == []

"""Test volume tiers: totals by hand in each tier and at its exact limits, units, differences across a limit."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import date
from decimal import Decimal

import jsonschema
import pytest

from gpufleet import catalog, cost
from gpufleet.catalog import Price
from gpufleet.cost.analysis.diff import compare_bills
from gpufleet.cost.analysis.reports.focus import format_focus_unit, render_focus_csv
from gpufleet.cost.analysis.reports.json_document import (
    build_diff_document,
    build_estimate_document,
    load_diff_schema,
)
from gpufleet.cost.pricing.by_use import resolve_usage_component
from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.monthly_use import RATES, format_use_unit
from tools.price_lists import PART_LISTS, read_price_list

S3, SQS, LAMBDA = "aws:s3/bucket:Bucket", "aws:sqs/queue:Queue", "aws:lambda/function:Function"
REST_API = "aws:apigateway/restApi:RestApi"
NAT = "aws:ec2/natGateway:NatGateway"
STORED = ("s3:standard:storage", "s3:intelligent_tiering:frequent_access", "blob_storage")
MILLION, BILLION = 10**6, 10**9

# Dollars of a month by amount, calculated by hand from the published tiers: inside each tier and at each limit.
BY_HAND = {
    ("aws", "us-east-1", "s3:standard:storage"): {
        0: "0",
        1_000: "23",
        51_200: "1177.6",  # 51,200 x 0.023
        51_201: "1177.622",
        512_000: "11315.2",  # + 460,800 x 0.022
        600_000: "13163.2",  # + 88,000 x 0.021
    },
    ("aws", "eu-central-1", "s3:standard:storage"): {
        51_200: "1254.4",  # x 0.0245
        512_000: "12083.2",  # + 460,800 x 0.0235
        600_000: "14063.2",  # + 88,000 x 0.0225
    },
    ("aws", "eu-central-1", "api_gateway:rest_request"): {
        333 * MILLION: "1232.1",  # 333 x 3.70
        1_000 * MILLION: "3359.83",  # + 667 x 3.19
        20_000 * MILLION: "54849.83",  # + 19,000 x 2.71
        20_100 * MILLION: "55021.83",  # + 100 x 1.72
    },
    ("aws", "eu-central-1", "api_gateway:http_request"): {300 * MILLION: "360", 400 * MILLION: "468"},
    ("aws", "eu-central-1", "lambda:x86:gib_second"): {16 * BILLION: "248333.6"},
    ("aws", "us-east-1", "s3:intelligent_tiering:frequent_access"): {
        51_200: "1177.6",
        512_000: "11315.2",
        512_001: "11315.221",
    },
    ("aws", "us-east-1", "egress:gib"): {
        1_000: "90",
        10_240: "921.6",  # 10,240 x 0.09
        10_241: "921.685",
        51_200: "4403.2",  # + 40,960 x 0.085
        153_600: "11571.2",  # + 102,400 x 0.07
        204_800: "14131.2",  # 200 TiB: + 51,200 x 0.05
    },
    ("aws", "ap-northeast-1", "egress:gib"): {
        10_240: "1167.36",  # x 0.114
        51_200: "4812.8",  # + 40,960 x 0.089
        153_600: "13619.2",  # + 102,400 x 0.086
        154_600: "13703.2",  # + 1,000 x 0.084
    },
    ("aws", "sa-east-1", "egress:gib"): {
        10_240: "1536",  # x 0.15
        51_200: "7188.48",  # + 40,960 x 0.138
        153_600: "20090.88",  # + 102,400 x 0.126
        153_700: "20102.28",  # + 100 x 0.114
    },
    ("aws", "us-east-1", "api_gateway:rest_request"): {
        100 * MILLION: "350",
        333 * MILLION: "1165.5",  # 333 x 3.50
        1_000 * MILLION: "3033.1",  # + 667 x 2.80
        20_000 * MILLION: "48253.1",  # + 19,000 x 2.38
        21_000 * MILLION: "49763.1",  # + 1,000 x 1.51
    },
    ("aws", "us-east-1", "api_gateway:http_request"): {300 * MILLION: "300", 400 * MILLION: "390"},
    ("aws", "us-east-1", "api_gateway:websocket_request"): {BILLION: "1000", 1500 * MILLION: "1400"},
    ("aws", "us-east-1", "acm_pca:certificate"): {1_000: "750", 10_000: "3900", 20_000: "3910"},
    ("aws", "us-east-1", "config:evaluation"): {100_000: "100", 500_000: "420", 1_000_000: "670"},
    ("aws", "eu-west-2", "firehose:gib"): {
        512_000: "17920",  # x 0.035
        2_048_000: "64000",  # + 1,536,000 x 0.03
        3_048_000: "88000",  # + 1,000,000 x 0.024
    },
    ("aws", "global", "route53:query"): {BILLION: "400", 2 * BILLION: "600"},
    ("aws", "us-east-1", "route53:resolver_query"): {BILLION: "400", 2 * BILLION: "600"},
    ("aws", "us-east-1", "lambda:x86:gib_second"): {
        6 * BILLION: "100000.2",  # x 0.0000166667
        15 * BILLION: "235000.2",  # + 9 billion x 0.000015
        16 * BILLION: "248333.6",  # + 1 billion x 0.0000133334
    },
    ("aws", "us-east-1", "lambda:arm:gib_second"): {
        7_500 * MILLION: "100000.5",  # x 0.0000133334
        18_750 * MILLION: "235001.625",  # + 11.25 billion x 0.0000120001
        19_750 * MILLION: "245668.325",  # + 1 billion x 0.0000106667
    },
    ("aws", "us-east-1", "sqs:request"): {
        100 * BILLION: "40000",
        200 * BILLION: "70000",  # + 100,000 x 0.30
        300 * BILLION: "94000",  # + 100,000 x 0.24
    },
    ("aws", "global", "cloudfront:transfer:us"): {
        10_240: "870.4",  # x 0.085
        51_200: "4147.2",  # + 40,960 x 0.08
        153_600: "10291.2",  # + 102,400 x 0.06
        512_000: "24627.2",  # + 358,400 x 0.04
        1_048_576: "40724.48",  # + 536,576 x 0.03
        5_242_880: "145582.08",  # + 4,194,304 x 0.025
        6_242_880: "165582.08",  # + 1,000,000 x 0.02
    },
    ("aws", "global", "cloudfront:transfer:europe"): {5_242_880: "145582.08", 6_242_880: "165582.08"},
    ("aws", "global", "cloudfront:transfer:india"): {
        10_240: "1116.16",  # x 0.109
        51_200: "4597.76",  # + 40,960 x 0.085
        153_600: "12994.56",  # + 102,400 x 0.082
        512_000: "41666.56",  # + 358,400 x 0.08
    },
    ("aws", "global", "cloudfront:transfer:japan"): {10_240: "1167.36", 51_200: "4812.8"},
    ("aws", "global", "cloudfront:transfer:australia"): {10_240: "1167.36", 51_200: "5181.44"},
    ("aws", "global", "cloudfront:transfer:asia_pacific"): {10_240: "1228.8", 51_200: "5324.8"},
    ("aws", "global", "cloudfront:transfer:south_africa"): {10_240: "1126.4", 51_200: "5427.2"},
    ("aws", "global", "cloudfront:transfer:south_america"): {10_240: "1126.4", 51_200: "5427.2"},
    ("azure", "eastus", "egress:gib"): {
        1_000: "87",
        10_335: "899.145",  # x 0.087
        51_295: "4298.825",  # + 40,960 x 0.083
        153_695: "11466.825",  # + 102,400 x 0.07
        200_000: "13782.075",  # + 46,305 x 0.05
    },
    ("azure", "southeastasia", "egress:gib"): {
        10_335: "1240.2",  # x 0.12
        51_295: "4721.8",  # + 40,960 x 0.085
        153_695: "13118.6",  # + 102,400 x 0.082
        200_000: "16823",  # + 46,305 x 0.08
    },
    ("azure", "westeurope", "egress:gib"): {200_000: "13782.075"},
    ("azure", "eastus", "blob_storage:lrs_hot"): {
        51_200: "1064.96",  # x 0.0208
        512_000: "10266.2144",  # + 460,800 x 0.019968
        512_001: "10266.233536",
    },
    ("azure", "westus", "blob_storage:lrs_hot"): {
        51_200: "1064.96",  # x 0.0208
        512_000: "10266.2144",  # + 460,800 x 0.019968
        600_000: "11950.1824",  # + 88,000 x 0.019136
    },
    ("azure", "westus", "blob_storage:grs_hot"): {
        51_200: "2344.96",  # x 0.0458
        512_000: "22605.4144",  # + 460,800 x 0.043968
        513_000: "22647.5504",  # + 1,000 x 0.042136
    },
    ("azure", "westus", "blob_storage:ragrs_hot"): {
        51_200: "2447.36",  # x 0.0478
        512_000: "23592.5504",  # + 460,800 x 0.045888
        513_000: "23636.5264",  # + 1,000 x 0.043976
    },
    ("azure", "westus", "blob_storage:zrs_hot"): {
        51_200: "1331.2",  # x 0.026
        512_000: "12832.768",  # + 460,800 x 0.02496
        513_000: "12856.688",  # + 1,000 x 0.02392
    },
    ("azure", "westus", "private_endpoint:gib_inbound"): {
        MILLION: "10000",
        5 * MILLION: "34000",
        6 * MILLION: "38000",
    },
    ("azure", "westus", "private_endpoint:gib_outbound"): {
        MILLION: "10000",
        5 * MILLION: "34000",
        6 * MILLION: "38000",
    },
    ("azure", "eastus", "search:image"): {MILLION: "1000", 5 * MILLION: "4200", 6 * MILLION: "4850"},
    ("azure", "global", "dns:query"): {BILLION: "400", 2 * BILLION: "600"},
    ("azure", "global", "traffic_manager:query"): {BILLION: "540", 2 * BILLION: "915"},
    ("azure", "westeurope", "service_bus:operation:standard"): {
        100 * MILLION: "80",
        2_500 * MILLION: "1280",  # + 2,400 x 0.50
        3_000 * MILLION: "1380",  # + 500 x 0.20
    },
    ("azure", "global", "cdn:gib"): {
        10_000: "810",
        50_000: "3810",  # + 40,000 x 0.075
        150_000: "9410",  # + 100,000 x 0.056
        500_000: "22360",  # + 350,000 x 0.037
        1_000_000: "36360",  # + 500,000 x 0.028
        2_000_000: "59360",  # + 1,000,000 x 0.023
    },
    ("gcp", "us-central1", "egress:gib"): {
        1_024: "122.88",  # x 0.12
        10_240: "1136.64",  # + 9,216 x 0.11
        20_480: "1955.84",  # + 10,240 x 0.08
    },
    ("gcp", "europe-west1", "egress:gib"): {10_240: "1136.64", 11_240: "1221.64"},  # + 1,000 x 0.085
    ("gcp", "global", "monitoring:mib"): {
        100_000: "25800",  # x 0.258
        250_000: "48450",  # + 150,000 x 0.151
        300_000: "51500",  # + 50,000 x 0.061
    },
    ("gcp", "global", "api_gateway:call"): {BILLION: "3000", 2 * BILLION: "4500"},
}


def make_use(key, amount):
    cloud, region, item = key
    stored = item.startswith(STORED)
    return UsageComponent("use", item, "amount", cloud, region, Decimal(amount), stored)


def price_use(key, amount, book=None):
    return resolve_usage_component(make_use(key, amount), book or cost.PriceBook())


@pytest.mark.parametrize(
    ("key", "amount", "usd"),
    [(key, amount, usd) for key, rows in BY_HAND.items() for amount, usd in rows.items()],
)
def test_amount_costs_what_its_tiers_make_by_hand(key, amount, usd):
    component = price_use(key, amount)
    assert isinstance(component, CostComponent)
    assert component.monthly_use.usd_per_month == Decimal(usd)
    assert component.monthly_use.amount == amount


def test_each_tiered_part_is_calculated_by_hand():
    assert {(key[0], key[2]) for key in catalog.load_price_tiers()} == {(key[0], key[2]) for key in BY_HAND}


@pytest.mark.parametrize("series", sorted({(key[0], key[2].partition(":transfer")[0]) for key in BY_HAND}))
def test_each_limit_of_a_series_of_prices_is_calculated_by_hand(series):
    keys = [key for key in BY_HAND if (key[0], key[2].partition(":transfer")[0]) == series]
    assert any(
        {tier.from_amount for tier in catalog.find_price_tiers(*key)[1:]} <= set(BY_HAND[key])
        and max(BY_HAND[key]) > catalog.find_price_tiers(*key)[-1].from_amount
        for key in keys
    )


@pytest.mark.parametrize("key", list(catalog.load_price_tiers()))
def test_one_unit_beyond_a_limit_costs_the_price_of_the_next_tier(key):
    tiers = catalog.find_price_tiers(*key)
    for tier in tiers[1:]:
        at_limit, beyond = (price_use(key, tier.from_amount + more) for more in (0, 1))
        assert beyond.monthly_use.usd_per_month - at_limit.monthly_use.usd_per_month == tier.usd
        assert len(beyond.monthly_use.shares) == len(at_limit.monthly_use.shares) + 1


def test_price_of_ones_own_is_not_mixed_with_tiers_of_the_list():
    own = Price(0.08, "gib_sent", "2026-10-01", "a contract", "high", "us-east-1", "on_demand")
    book = cost.PriceBook(find_cloud_part_price=lambda *_: own)
    component = price_use(("aws", "us-east-1", "egress:gib"), 204_800, book)
    assert component.monthly_use.usd_per_month == Decimal(16384)
    assert component.monthly_use.caveat == (
        "the price of larger amounts of egress:gib in us-east-1 is not known; the whole amount counts at the first tier"
    )


@pytest.mark.parametrize(("amount", "is_noted"), [(333 * MILLION, False), (333 * MILLION + 1, True)])
def test_region_without_known_tiers_is_priced_at_its_first_price_and_says_so(amount, is_noted):
    component = price_use(("aws", "ap-southeast-2", "api_gateway:rest_request"), amount)
    assert component.monthly_use.usd_per_month == amount * Decimal("0.0000035")
    assert bool(component.monthly_use.caveat) is is_noted


def test_unit_price_without_an_amount_is_of_the_first_tier():
    use = replace(make_use(("aws", "us-east-1", "s3:standard:storage"), 0), amount=None)
    entry = resolve_usage_component(use, cost.PriceBook())
    assert entry == UnpricedComponent(
        "bills by use, 0.023 USD per GiB-month; give amount in the usage file", "use", is_by_use=True
    )


@pytest.mark.parametrize(
    ("unit", "is_stored", "singular", "plural"),
    [
        ("gib", True, "GiB-month", "GiB-months"),
        ("gib_sent", False, "GiB", "GiB"),
        ("tib_scanned", False, "TiB", "TiB"),
        ("gib_second", False, "GiB-second", "GiB-seconds"),
        ("vcpu_second", False, "vCPU-second", "vCPU-seconds"),
        ("connection_hour", False, "connection-hour", "connection-hours"),
        ("minute", False, "minute", "minutes"),
        ("query", False, "query", "queries"),
        ("key", False, "key", "keys"),
        ("access", False, "access", "accesses"),
        ("push", False, "push", "pushes"),
        ("vcpu", True, "vCPU-month", "vCPU-months"),
        ("vcpu", False, "vCPU", "vCPUs"),
        ("data_point", False, "data point", "data points"),
        ("key_version", True, "key version-month", "key version-months"),
        ("mib_per_s", True, "MiB/s-month", "MiB/s-months"),
        ("iops", True, "IOPS-month", "IOPS-months"),
    ],
)
def test_unit_is_a_word(unit, is_stored, singular, plural):
    assert format_use_unit(unit, is_stored=is_stored) == singular
    assert format_use_unit(unit, is_stored=is_stored, is_plural=True) == plural


@pytest.mark.parametrize("is_stored", [False, True])
def test_each_unit_of_the_price_list_is_spelled_as_focus_demands(is_stored):
    rows = (row for name in PART_LISTS for row in read_price_list(name))
    units = {row["unit"] for row in rows if row["per"] != "hour"} - set(RATES)  # declared, not by use
    spelled = {
        format_focus_unit(format_use_unit(unit, is_stored=is_stored, is_plural=True)) for unit in units
    }
    noun, time = r"[A-Z][A-Za-z]*", "(Month|Hour|Second|Minute)s?"
    assert [unit for unit in spelled if not re.fullmatch(rf"{noun}( {noun})*(-{time})*", unit)] == []


def test_service_that_always_runs_bills_its_seconds(make_resource):
    pool = {
        "location": "us-central1",
        "template": {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]},
        "scaling": {"manualInstanceCount": 1},
    }
    estimate = cost.estimate([make_resource("w", "gcp:cloudrunv2/workerPool:WorkerPool", pool)])
    rows = csv.DictReader(io.StringIO(render_focus_csv(estimate, date(2026, 10, 5))))
    units = {row["SkuId"]: (row["PricingUnit"], Decimal(row["PricingQuantity"])) for row in rows}
    assert units == {
        "gcp:cloud_run:worker:vcpu_second": ("VCPU-Seconds", Decimal(2 * 3600 * 730)),
        "gcp:cloud_run:worker:gib_second": ("GiB-Seconds", Decimal(3600 * 730)),
    }
    assert "USD per vCPU-second, as of" in cost.render_estimate(estimate, "table")


@pytest.fixture
def read_usage(tmp_path):
    def write(text):
        (tmp_path / "usage.yaml").write_text(text)
        return cost.load_usage_file(tmp_path / "usage.yaml")

    return write


def test_resources_of_a_program_are_priced_by_tier_each_on_its_own(read_usage, make_resource):
    usage = read_usage(
        f"types:\n  {S3}: {{standard: {{storage_gb: 600000}}}}\n  {NAT}: {{egress_gib: 204800}}\n"
        f"  {SQS}: {{monthly_requests: 150000000000}}\n"
    )
    inputs = {"region": "us-east-1"}
    resources = [
        *(make_resource(name, S3, inputs) for name in ("one", "two")),
        make_resource("q", SQS, inputs),
        make_resource("n", NAT, inputs),
    ]
    bill = cost.price_resources(resources, usage=usage)
    months = {(charge.name, charge.component): charge.usd_per_month.expected for charge in bill.charges}
    assert months["one", "storage"] == months["two", "storage"] == Decimal("13163.2")
    assert months["q", "requests"] == Decimal(55_000)
    assert months["n", "egress"] == Decimal("14131.2")


def test_difference_across_a_limit_is_the_prices_of_both_tiers(read_usage, make_resource):
    bucket = make_resource("b", S3, {"region": "us-east-1"})
    before, after = (
        cost.price_resources(
            [bucket], usage=read_usage(f"types:\n  {S3}: {{standard.storage_gb: {amount}}}\n")
        )
        for amount in (51_100, 51_300)
    )
    diff = compare_bills("dev", before, after)
    assert diff.change_usd_per_month == Decimal("4.50")  # 100 x 0.023 + 100 x 0.022
    assert [line.op for line in diff.lines] == ["update"]
    for name in ("table", "markdown", "html"):
        text = cost.render_diff(diff, name).replace("`", "")
        assert "51,300 GiB-months s3:standard:storage" in text
        assert "from 51,200 GiB-months: 0.022 USD per GiB-month, as of 2026-02-23" in text
    line = build_diff_document(diff)["resources"][0]
    jsonschema.validate(build_diff_document(diff), load_diff_schema())
    assert (line["quantity_before"], line["quantity"], line["unit"]) == (51_100, 51_300, "GiB-months")
    assert [tier["amount"] for tier in line["tiers"]] == [51_200, 100]


def test_change_of_a_program_that_passes_a_limit_costs_what_both_tiers_make(read_usage, make_resource):
    usage = read_usage(f"types:\n  {LAMBDA}: {{monthly_requests: 5000000000, request_duration_ms: 1000}}\n")
    before, after = (
        cost.price_resources(
            [make_resource("f", LAMBDA, {"region": "us-east-1", "memorySize": memory_mib})], usage=usage
        )
        for memory_mib in (1024, 2048)
    )
    # 5 billion GiB-seconds become 10: 1 billion x 0.0000166667 and 4 billion x 0.000015
    assert compare_bills("dev", before, after).change_usd_per_month == Decimal("76666.70")


def test_uncertain_price_of_a_large_amount_is_noted_once(read_usage, make_resource):
    usage = read_usage(f"types:\n  {REST_API}: {{monthly_requests: 600000000}}\n")
    apis = [make_resource(name, REST_API, {"region": "ap-southeast-2"}) for name in ("one", "two")]
    caveat = "of api_gateway:rest_request in ap-southeast-2 is not known; the whole amount counts at the first tier"
    estimate = cost.estimate(apis, usage=usage)
    assert [caveat in note for note in estimate.notes].count(True) == 1
    assert estimate.bill.usd_per_month.expected == 2 * 600 * Decimal("3.50")


def test_tier_without_a_date_is_noted(read_usage, make_resource):
    usage = read_usage(f"types:\n  {NAT}: {{egress_gib: 20000}}\n")
    notes = cost.estimate([make_resource("n", NAT, {"region": "us-east-1"})], usage=usage).notes
    undated = next(note for note in notes if note.startswith("prices without a date: "))
    assert "egress:gib from 10,240 GiB in us-east-1" in undated


def test_replaced_queue_does_not_serve_its_requests_twice(read_usage, make_resource):
    usage = read_usage(f"types:\n  {SQS}: {{monthly_requests: 150000000000}}\n")
    queue = make_resource("q", SQS, {"region": "us-east-1"})
    bill = cost.price_resources([queue], usage=usage)
    diff = compare_bills(
        "dev",
        bill,
        bill,
        operations={queue.urn: "replace"},
        overlaps=frozenset({queue.urn}),
        overlap_hours=Decimal(1),
    )
    assert diff.one_off_usd == 0


@pytest.mark.parametrize("name", ["table", "json", "focus"])
def test_largest_amounts_are_reported(read_usage, make_resource, name):
    usage = read_usage(
        f"types:\n  {LAMBDA}: {{monthly_requests: 1.0e+15, request_duration_ms: 999999999999999.9}}\n"
        f"  {S3}: {{standard.storage_gb: 1.0e-300}}\n"
    )
    inputs = {"region": "us-east-1", "memorySize": 10240}
    estimate = cost.estimate(
        [make_resource("f", LAMBDA, inputs), make_resource("b", S3, inputs)], usage=usage
    )
    assert "lambda:x86:gib_second" in cost.render_estimate(estimate, name)


@pytest.fixture
def estimate(read_usage, make_resource):
    usage = read_usage(
        f"types:\n  {S3}: {{standard: {{storage_gb: 600000}}}}\n  {SQS}: {{monthly_requests: 1000000}}\n"
    )
    resources = [
        make_resource("b", S3, {"region": "us-east-1"}),
        make_resource("q", SQS, {"region": "us-east-1"}),
    ]
    return cost.estimate(resources, stack="dev", usage=usage)


def test_table_shows_amounts_as_they_are_given(estimate):
    text = cost.render_estimate(estimate, "table")
    assert "600,000 GiB-months      -" in text
    assert "1,000,000 requests      -" in text
    assert "from 51,200 GiB-months: 0.022 USD per GiB-month, as of 2026-02-23" in text
    assert "sqs:request in us-east-1, on demand: 0.0000004 USD per request" in text
    assert "and hour" not in text


def test_json_has_the_unit_and_the_tiers(estimate):
    charges = {each["item"]: each for each in build_estimate_document(estimate)["resources"]}
    storage = charges["s3:standard:storage"]
    assert (storage["quantity"], storage["unit"], storage["usd_per_month"]) == (
        600_000,
        "GiB-months",
        13163.2,
    )
    assert [(tier["from"], tier["amount"], tier["usd_per_unit"]) for tier in storage["tiers"]] == [
        (0, 51_200, 0.023),
        (51_200, 460_800, 0.022),
        (512_000, 88_000, 0.021),
    ]
    requests = charges["sqs:request"]
    assert (requests["quantity"], requests["unit"]) == (1_000_000, "requests")
    assert [tier["usd_per_unit"] for tier in requests["tiers"]] == [4e-07]


def test_focus_has_a_row_for_each_tier(estimate):
    rows = list(csv.DictReader(io.StringIO(render_focus_csv(estimate, date(2026, 10, 5)))))
    storage = [row for row in rows if row["SkuId"] == "aws:s3:standard:storage"]
    assert [
        tuple(Decimal(row[column]) for column in ("PricingQuantity", "ListUnitPrice", "BilledCost"))
        for row in storage
    ] == [
        (Decimal(51_200), Decimal("0.023"), Decimal("1177.6")),
        (Decimal(460_800), Decimal("0.022"), Decimal("10137.6")),
        (Decimal(88_000), Decimal("0.021"), Decimal(1848)),
    ]
    assert {(row["PricingUnit"], row["ConsumedUnit"]) for row in storage} == {("GiB-Months", "GiB-Months")}
    assert len({row["SkuPriceId"] for row in storage}) == 3
    (requests,) = (row for row in rows if row["SkuId"] == "aws:sqs:request")
    assert (requests["PricingUnit"], Decimal(requests["PricingQuantity"])) == ("Requests", Decimal(1_000_000))

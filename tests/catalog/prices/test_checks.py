"""Test that each price check detects its mistake and accepts correct prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog import data_file
from gpufleet.catalog.prices import CODES, MachineFacts, PriceCheckContext, PriceRow, check_prices
from gpufleet.catalog.prices.audit import check_current_prices
from gpufleet.catalog.prices.check import CHECKS, MachineAvailability
from gpufleet.catalog.prices.check_context import load_check_context_without_prices, load_price_check_context
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.catalog.prices.size_check import machine_family

REGIONS = ("us-central1", "us-east4", "europe-west4", "asia-southeast1", "us-west1")


def build_price(usd, purchase="on_demand", region="us-east-1", item="zz.large", cloud="aws", **more):
    return PriceRow(cloud, region, item, purchase, usd, more.pop("as_of", "2026-11-01"), "a test", **more)


def prices_by_region(usds, **more):
    return [build_price(usd, region=region, **more) for usd, region in zip(usds, REGIONS, strict=False)]


KEY = ("aws", "us-east-1", "zz.large", "on_demand")
RETIRED = PriceCheckContext(retired={("aws", "zz.large"): "2026-01-31"})
OFFERED = PriceCheckContext(
    offered={("aws", "zz.large"): MachineAvailability(frozenset({"us-west-2"}), "2026-10-01", "a list")}
)
EIGHT = PriceCheckContext(accelerators={("aws", "zz.large"): 8})
NAMED = PriceCheckContext(
    names=KnownNames(
        {"aws": frozenset({"us-east-1"})}, {"aws": frozenset({"zz.large"})}, {"disk": frozenset({"gib"})}
    )
)
SIZED = PriceCheckContext(sizes={("aws", "zz.large"): (2, 8.0)})
BEFORE = PriceCheckContext(prices={KEY: (1.0, "2026-01-01")})
H100 = {"cloud": "gcp", "item": "a3-highgpu-8g"}

FIRES = {
    "zero-price": ([build_price(0.0)], PriceCheckContext()),
    "sentinel": ([build_price(700.0, cloud="gcp", item="tpu-v6e-8")], PriceCheckContext()),
    "spot-not-cheaper": ([build_price(2.0), build_price(2.0, "spot")], PriceCheckContext()),
    "spot-not-cheaper, of what was known": ([build_price(1.1, "spot")], BEFORE),
    "spot-placeholder, a tenth": ([build_price(6.702), build_price(0.6702, "spot")], PriceCheckContext()),
    "spot-placeholder, nearly all": ([build_price(2.0), build_price(1.91, "spot")], PriceCheckContext()),
    "commitment-not-cheaper": ([build_price(2.0), build_price(2.1, "reserved_1y")], PriceCheckContext()),
    "whole-term": ([build_price(32.77), build_price(183722.0, "reserved_1y")], PriceCheckContext()),
    "whole-term, on-demand unknown": ([build_price(183722.0, "reserved_3y")], PriceCheckContext()),
    "dws-mismatch": ([*prices_by_region([33.6, 78.4, 78.4, 80.0], **H100)], PriceCheckContext()),
    "dws-mismatch, of two regions": ([*prices_by_region([4.20, 9.80], **H100)], PriceCheckContext()),
    "region-outlier": (prices_by_region([10.0, 11.0, 10.5, 30.0]), PriceCheckContext()),
    "region-outlier, spot": (prices_by_region([1.0, 1.1, 0.9, 7.0], purchase="spot"), PriceCheckContext()),
    "jump": ([build_price(2.0)], BEFORE),
    "jump, downwards": ([build_price(0.4)], BEFORE),
    "not-offered, says the source": ([build_price(1.0, offered=False)], PriceCheckContext()),
    "not-offered, says the cloud": ([build_price(1.0)], OFFERED),
    "not-offered, retired": ([build_price(1.0)], RETIRED),
    "accelerators": ([build_price(1.0, facts=MachineFacts(accelerator="Trainium2", accelerators=1))], EIGHT),
    "host-only": ([build_price(1.0, facts=MachineFacts(vcpus=96))], EIGHT),
    "future": ([build_price(1.0, as_of="2028-01-01")], PriceCheckContext()),
    "unknown-cloud": ([build_price(1.0, cloud="awz")], NAMED),
    "unknown-region": ([build_price(1.0, region="us-esat-1")], NAMED),
    "unknown-machine": ([build_price(1.0, item="zz.lrage")], NAMED),
    "unknown-unit": ([build_price(1.0, item="disk", kind="part", unit="gb")], NAMED),
    "unknown-unit, of a new part": ([build_price(1.0, item="tape", kind="part", unit="gb")], NAMED),
    "unit-price": ([build_price(9.6, facts=MachineFacts(2, 8.0))], PriceCheckContext()),
    "unit-price, size of the catalogue": ([build_price(0.00096)], SIZED),
    "family-outlier": (
        [
            build_price(usd, item=f"m5.{size}", facts=MachineFacts(vcpus, vcpus * 4.0))
            for size, vcpus, usd in (("large", 2, 0.107), ("xlarge", 4, 0.214), ("4xlarge", 16, 0.0856))
        ],
        PriceCheckContext(),
    ),
    "licence-cheaper": ([build_price(1.0), build_price(0.9, item="zz.large:windows")], PriceCheckContext()),
    "tagged": ([PriceRow(*KEY, 1.0, "2025-05-28", "some list;pre-2025-06-cut")], PriceCheckContext()),
}
SILENT = {
    "zero-price": [build_price(0.0, item="efa", kind="part", unit="interface")],
    "sentinel": prices_by_region([690.0, 705.0, 700.0, 710.0], item="tpu-v6e-256"),
    "spot-not-cheaper": [build_price(2.0), build_price(1.2, "spot")],
    "spot-placeholder": [
        build_price(2.0),
        build_price(0.21, "spot"),
        build_price(1.89, "spot", region="us-east-2"),
    ],
    "commitment-not-cheaper": [
        build_price(2.0),
        build_price(1.9, "reserved_1y"),
        build_price(1.0, "savings_plan_3y"),
    ],
    "whole-term": [build_price(98.32), build_price(63.0, "reserved_1y")],
    "dws-mismatch": [
        *prices_by_region([78.4, 80.0, 99.0, 120.0], **H100),
        build_price(4.2, cloud="aws"),
        *prices_by_region(
            [0.055, 0.1, 0.1, 0.1], cloud="gcp", item="c2d-highcpu-2", facts=MachineFacts(2, 4.0)
        ),
    ],
    "region-outlier": [
        *prices_by_region([10.0, 7.1, 16.0, 12.0]),
        *prices_by_region([1.0, 0.3, 2.9, 1.2], purchase="spot"),
        *prices_by_region([0.082, 0.16, 0.154, 0.31], item="c6a.xlarge", facts=MachineFacts(4, 8.0)),
    ],
    "unit-price": [  # the cheapest and the dearest of the list prices, and an accelerated machine
        build_price(0.0028, item="t4g.nano", facts=MachineFacts(2, 0.5)),
        build_price(5.52, item="hs1.8xlarge", facts=MachineFacts(17, 117.0)),
        build_price(55.04, item="p5.48xlarge", facts=MachineFacts(192, 2048.0, accelerators=8)),
        build_price(0.00096, "spot", item="t4g.nano", facts=MachineFacts(2, 0.5)),
    ],
    "family-outlier": [
        *(
            build_price(usd, item=f"t3.{size}", facts=MachineFacts(vcpus, memory_gib))
            for size, vcpus, memory_gib, usd in (
                ("nano", 2, 0.5, 0.0052),
                ("medium", 2, 4.0, 0.0416),
                ("2xlarge", 8, 32.0, 0.3328),
            )
        ),
        build_price(9.0, item="t3.large:windows", facts=MachineFacts(2, 8.0)),
        build_price(9.0, item="ebs:t3", kind="part", unit="gib"),
    ],
    "licence-cheaper": [
        build_price(1.0),
        build_price(1.0, item="zz.large:windows"),
        build_price(0.4, "spot", item="zz.large:windows"),
        build_price(0.1, item="disk:premium", kind="part", unit="gib"),
    ],
}


@pytest.mark.parametrize("name", FIRES)
def test_check_detects_its_mistake(name):
    rows, known = FIRES[name]
    findings = [finding for finding in check_prices(rows, known) if finding.code == name.split(",")[0]]
    assert len(findings) == 1, findings
    assert findings[0].reason


@pytest.mark.parametrize("code", SILENT)
def test_check_accepts_a_correct_price_similar_to_its_mistake(code):
    assert [
        finding for finding in check_prices(SILENT[code], PriceCheckContext()) if finding.code == code
    ] == []


@pytest.mark.parametrize(
    ("row", "known"),
    [
        (build_price(1.4), BEFORE),
        (build_price(2.0, as_of="2025-12-31"), BEFORE),  # older than what is known: no jump, just the past
        (build_price(2.0, as_of=""), BEFORE),
        (build_price(1.0, as_of="2025-06-01"), RETIRED),
        (build_price(1.0, as_of="2027-05-01"), OFFERED),  # the list of regions is too old to tell
        (build_price(1.0, region="us-west-2"), OFFERED),
        (build_price(1.0, facts=MachineFacts(accelerator="T4", accelerators=8)), EIGHT),
        (build_price(1.0), EIGHT),
        (build_price(4.0, "spot"), PriceCheckContext(prices={(*KEY[:3], "spot"): (1.0, "2026-01-01")})),
    ],
)
def test_known_facts_prevent_a_finding(row, known):
    known = replace(known, today=date(2027, 12, 1))
    assert list(check_prices([row], known)) == []


@pytest.mark.parametrize(
    ("cloud", "machines", "family"),
    [
        ("aws", ("m5.large", "m5.metal"), "m5"),
        ("gcp", ("n2-standard-2", "n2-standard-128"), "n2-standard-#"),
        ("gcp", ("e2-micro", "e2-medium"), "e2-#"),
        ("gcp", ("c3-standard-4-lssd",), "c3-standard-#-lssd"),
        ("azure", ("Standard_D2s_v5", "Standard_D96s_v5", "Standard_D2s_v5:windows"), "Standard_D#s_v5"),
        ("aws", ("m5.large", "m5.large:rhel"), "m5"),
    ],
)
def test_machines_of_a_family_differ_in_size_only(cloud, machines, family):
    assert {machine_family(cloud, machine) for machine in machines} == {family}


def test_check_context_has_embedded_prices_and_sizes_of_ordinary_machines():
    row = PriceRow("aws", "eu-west-1", "m5.large:windows", "on_demand", 0.2, "2026-11-01", "a test")
    known = load_price_check_context(None, [row])
    assert known.prices[row.price_key][0] == pytest.approx(0.199, abs=0.003)
    assert known.sizes["aws", "m5.large"] == (2, 8.0)
    assert list(check_prices([row], replace(known, today=date(2027, 12, 1)))) == []


def test_licensed_machine_is_known_if_the_machine_is():
    known = replace(NAMED, today=date(2027, 12, 1))
    assert list(check_prices([build_price(1.0, item="zz.large:windows")], known)) == []
    (finding,) = check_prices([build_price(1.0, item="zz.large:beos")], known)
    assert finding.code == "unknown-machine"


def test_real_price_cuts_and_spot_changes_are_accepted():
    cut = PriceCheckContext(prices={KEY: (98.32, "2025-05-28")})
    assert list(check_prices([build_price(55.04)], cut)) == []
    moved = PriceCheckContext(prices={(*KEY[:3], "spot"): (62.41, "2024-06-01")})
    assert list(check_prices([build_price(20.4, "spot")], moved)) == []


def test_every_check_has_a_positive_and_a_negative_case():
    assert {name.split(",")[0] for name in FIRES} == set(CHECKS) == set(CODES)
    assert set(SILENT) <= set(CHECKS)


def test_shipped_prices_pass_their_checks(store_path):
    assert check_current_prices() == []


def test_check_context_is_loaded_from_packaged_data():
    row = PriceRow("gcp", "us-central1", "a2-megagpu-16g", "spot", 30.0, "2026-11-01", "a test")
    known = load_price_check_context(None, [row])
    assert known.prices["gcp", "us-central1", "a2-megagpu-16g", "spot"] == (29.25568, "2026-07-30")
    assert known.accelerators["gcp", "a2-megagpu-16g"] == 16
    assert known.retired["azure", "Standard_NC6s_v3"] == "2025-09-30"
    assert "us-east1" not in known.offered["gcp", "a2-megagpu-16g"].regions
    assert load_check_context_without_prices().prices == {}


def test_priced_machines_are_offered_in_their_region():
    offered = load_check_context_without_prices().offered
    for cloud, region, machine, _ in data_file.load_machine_prices():
        if (cloud, machine) in offered:
            assert region in offered[cloud, machine].regions, machine


@given(
    usds=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=6),
    purchase=st.sampled_from(["spot", "reserved_1y", "reserved_3y", "dws_flex"]),
    factor=st.floats(0.5, 2.0),
)
def test_checks_never_fail_and_do_not_depend_on_the_row_order(usds, purchase, factor):
    rows = [*prices_by_region(usds, purchase=purchase), *prices_by_region([usd * factor for usd in usds])]
    findings = {(price.code, price.row) for price in check_prices(rows, PriceCheckContext())}
    assert findings == {
        (finding.code, finding.row) for finding in check_prices(rows[::-1], PriceCheckContext())
    }
    assert {
        finding.row for finding in check_prices(rows, PriceCheckContext()) if finding.code == "zero-price"
    } == {row for row in rows if row.usd_per_hour == 0}


DEMAND = build_price(10.0)
FOUR = [1.0, 1.0, 1.0]
# (rows, known, code, how many of them): on each side of every bound that the module's first lines give a reason for.
BOUNDS = [
    ([DEMAND, build_price(10.0, "spot")], PriceCheckContext(), "spot-not-cheaper", 1),
    ([DEMAND, build_price(9.999, "spot")], PriceCheckContext(), "spot-not-cheaper", 0),
    ([DEMAND, build_price(9.5, "spot")], PriceCheckContext(), "spot-placeholder", 1),
    ([DEMAND, build_price(9.49, "spot")], PriceCheckContext(), "spot-placeholder", 0),
    ([DEMAND, build_price(1.0, "spot")], PriceCheckContext(), "spot-placeholder", 1),
    ([DEMAND, build_price(1.0004, "spot")], PriceCheckContext(), "spot-placeholder", 1),
    ([DEMAND, build_price(1.002, "spot")], PriceCheckContext(), "spot-placeholder", 0),
    ([DEMAND, build_price(0.998, "spot")], PriceCheckContext(), "spot-placeholder", 0),
    ([DEMAND, build_price(10.0, "spot")], PriceCheckContext(), "spot-placeholder", 0),
    ([DEMAND, build_price(10.0, "reserved_1y")], PriceCheckContext(), "commitment-not-cheaper", 1),
    ([DEMAND, build_price(9.99, "reserved_1y")], PriceCheckContext(), "commitment-not-cheaper", 0),
    ([DEMAND, build_price(499.9, "reserved_1y")], PriceCheckContext(), "commitment-not-cheaper", 1),
    ([DEMAND, build_price(500.0, "reserved_1y")], PriceCheckContext(), "commitment-not-cheaper", 0),
    ([DEMAND, build_price(500.0, "reserved_1y")], PriceCheckContext(), "whole-term", 1),
    ([DEMAND, build_price(499.9, "reserved_1y")], PriceCheckContext(), "whole-term", 0),
    ([build_price(1500.0, "reserved_3y")], PriceCheckContext(), "whole-term", 1),
    ([build_price(1499.9, "reserved_3y")], PriceCheckContext(), "whole-term", 0),
    ([build_price(9000.0, "reserved_3y", kind="part", unit="gib")], PriceCheckContext(), "whole-term", 0),
    ([build_price(9000.0, "spot")], PriceCheckContext(), "whole-term", 0),
    (prices_by_region([1.8, 1.0, 1.0, 1.0]), PriceCheckContext(), "region-outlier", 0),
    (prices_by_region([1.81, 1.0, 1.0, 1.0]), PriceCheckContext(), "region-outlier", 1),
    (prices_by_region([0.6, 1.0, 1.0, 1.0]), PriceCheckContext(), "region-outlier", 0),
    (prices_by_region([0.59, 1.0, 1.0, 1.0]), PriceCheckContext(), "region-outlier", 1),
    (prices_by_region([6.0, 1.0, 1.0, 1.0], purchase="spot"), PriceCheckContext(), "region-outlier", 0),
    (prices_by_region([6.1, 1.0, 1.0, 1.0], purchase="spot"), PriceCheckContext(), "region-outlier", 1),
    (prices_by_region([1 / 6, 1.0, 1.0, 1.0], purchase="spot"), PriceCheckContext(), "region-outlier", 0),
    (prices_by_region([0.16, 1.0, 1.0, 1.0], purchase="spot"), PriceCheckContext(), "region-outlier", 1),
    (prices_by_region([9.0, 1.0, 1.0]), PriceCheckContext(), "region-outlier", 0),  # none of three is clearly right
    (prices_by_region([0.6, 1.0, 1.0, 1.0], **H100), PriceCheckContext(), "dws-mismatch", 0),
    (prices_by_region([0.59, 1.0, 1.0, 1.0], **H100), PriceCheckContext(), "dws-mismatch", 1),
    (prices_by_region([0.59, 1.0], **H100), PriceCheckContext(), "dws-mismatch", 1),
    # with few regions, the highest price is taken as the correct one
    (prices_by_region([0.59, 0.5, 1.0], **H100), PriceCheckContext(), "dws-mismatch", 2),
    (prices_by_region([0.59, 1.0, 1.0, 1.0], purchase="spot", **H100), PriceCheckContext(), "dws-mismatch", 0),
    (prices_by_region([0.59, 1.0, 1.0, 1.0]), PriceCheckContext(), "dws-mismatch", 0),  # AWS sells no such thing
    ([build_price(1.5)], BEFORE, "jump", 0),
    ([build_price(1.51)], BEFORE, "jump", 1),
    ([build_price(0.5)], BEFORE, "jump", 0),
    ([build_price(0.49)], BEFORE, "jump", 1),
    ([build_price(2.0, as_of="2026-01-01")], BEFORE, "jump", 1),
    ([build_price(2.0, upfront="all")], BEFORE, "jump", 0),
    ([build_price(5.0, "spot")], PriceCheckContext(prices={(*KEY[:3], "spot"): (1.0, "")}), "jump", 0),
    ([build_price(5.1, "spot")], PriceCheckContext(prices={(*KEY[:3], "spot"): (1.0, "")}), "jump", 1),
    ([build_price(0.2, "spot")], PriceCheckContext(prices={(*KEY[:3], "spot"): (1.0, "")}), "jump", 0),
    ([build_price(0.19, "spot")], PriceCheckContext(prices={(*KEY[:3], "spot"): (1.0, "")}), "jump", 1),
    ([build_price(1.0, as_of="2026-01-31")], RETIRED, "not-offered", 1),
    ([build_price(1.0, as_of="2026-01-30")], RETIRED, "not-offered", 0),
    ([build_price(1.0, as_of="")], RETIRED, "not-offered", 1),
    ([build_price(1.0, as_of="2027-03-30")], OFFERED, "not-offered", 1),  # 180 days after the list
    ([build_price(1.0, as_of="2027-03-31")], OFFERED, "not-offered", 0),
    ([build_price(1.0, offered=True)], OFFERED, "not-offered", 0),
    ([build_price(1.0, facts=MachineFacts(accelerator="T4", accelerators=8.07))], EIGHT, "accelerators", 0),
    ([build_price(1.0, facts=MachineFacts(accelerator="T4", accelerators=8.09))], EIGHT, "accelerators", 1),
    ([build_price(1.0, facts=MachineFacts(accelerator="T4", accelerators=7.91))], EIGHT, "accelerators", 1),
    *(([build_price(usd)], PriceCheckContext(), "sentinel", 1) for usd in (700.0, 999.0, 9999.0, 99999.0)),
    ([build_price(998.0)], PriceCheckContext(), "sentinel", 0),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "known", "code", "count"), BOUNDS)
def test_check_fires_exactly_at_its_bound(rows, known, code, count):
    known = replace(known, today=date(2027, 12, 1))
    assert sum(finding.code == code for finding in check_prices(rows, known)) == count


@pytest.mark.parametrize(
    ("rows", "known", "reason"),
    [
        ([build_price(0.0)], PriceCheckContext(), "costs 0.00"),
        ([DEMAND, build_price(10.5, "spot")], PriceCheckContext(), "spot 10.5 is not below on-demand 10"),
        ([DEMAND, build_price(9.6, "spot")], PriceCheckContext(), "spot is 96.0% of on-demand 10"),
        ([DEMAND, build_price(10.5, "reserved_1y")], PriceCheckContext(), "reserved_1y 10.5 is not below on-demand 10"),
        ([build_price(8760.0, "reserved_1y")], PriceCheckContext(),
         "8760 an hour looks like the price of the whole term"),
        ([build_price(52560.0, "reserved_3y")], PriceCheckContext(),
         "52560 an hour looks like the price of the whole term"),
        ([build_price(2.0)], BEFORE, "2, after 1 on 2026-01-01"),
        ([build_price(1.0)], RETIRED, "zz.large was retired on 2026-01-31"),
        ([build_price(1.0)], OFFERED, "zz.large is not offered in us-east-1 (a list, 2026-10-01)"),
        ([build_price(1.0, offered=False)], PriceCheckContext(), "its source does not list zz.large in us-east-1"),
        ([build_price(1.0, facts=MachineFacts(accelerators=1))], EIGHT, "says 1 accelerators, zz.large has 8"),
        ([build_price(1.0, facts=MachineFacts(vcpus=9))], EIGHT, "prices zz.large without its 8 accelerators"),
        (prices_by_region([2.5, 1.0, 1.0, 1.0]), PriceCheckContext(), "2.5 in us-central1, 1 in the median region"),
        ([build_price(700.0)], PriceCheckContext(), "700 is a placeholder, not a price"),
    ],
)  # fmt: skip
def test_finding_names_observed_and_expected_value(rows, known, reason):
    known = replace(known, today=date(2027, 12, 1))
    assert [finding.reason for finding in check_prices(rows, known)] == [reason]


def test_spot_price_is_compared_with_the_same_batch_before_the_stored_price():
    dearer = PriceCheckContext(prices={KEY: (1.0, "2026-01-01")})
    rows = [build_price(1.4), build_price(1.2, "spot")]
    assert not [finding for finding in check_prices(rows, dearer) if finding.code == "spot-not-cheaper"]
    assert [finding.code for finding in check_prices(rows[1:], dearer) if finding.row.purchase == "spot"] == [
        "spot-not-cheaper"
    ]


def test_spot_price_is_not_compared_with_an_on_demand_price_that_jumps():
    rows = [build_price(10.0), build_price(5.0, "spot")]
    assert {finding.code for finding in check_prices(rows, BEFORE)} == {"jump", "spot-not-cheaper"}

"""Test the extended support of RDS: by version, year, size and copies, against vendors' dates and list prices."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from gpufleet.cost import price_resources
from gpufleet.cost.pricing.pricers.aws.rds_support import count_class_vcpus, find_support_dates
from gpufleet.engine import UnreadableValue
from programs.case import build_preview, load_programs
from programs.measure import measure_program

AFTER = date(2026, 11, 23)


def price(resource, on_date=AFTER, **inputs):
    defaults = {
        "engine": "mysql",
        "engineVersion": "5.7",
        "instanceClass": "db.t3.micro",
        "allocatedStorage": 20,
    }
    bill = price_resources(
        [resource("aws:rds/instance:Instance", {**defaults, **inputs}, region="us-east-1")], on_date=on_date
    )
    support = [charge for charge in bill.charges if charge.component == "extended_support"]
    gaps = [gap.reason for gap in bill.unpriced_resources if gap.component == "extended_support"]
    return [charge.usd_per_month.expected for charge in support], gaps


@pytest.fixture
def resource():
    from aws_service_prices import make_service

    return lambda type_, inputs, region: make_service(type_, inputs)


@pytest.mark.parametrize(
    ("inputs", "usd"),
    [
        ({}, 2 * Decimal("0.2") * 730),
        ({"multiAz": True}, 4 * Decimal("0.2") * 730),
        ({"instanceClass": "db.m5.2xlarge"}, 8 * Decimal("0.2") * 730),
        ({"instanceClass": "db.t2.micro"}, Decimal("0.2") * 730),
        ({"engineVersion": "5.6.51"}, 2 * Decimal("0.2") * 730),
        ({"engine": "postgres", "engineVersion": "11.22"}, 2 * Decimal("0.2") * 730),
        ({"engine": "postgres", "engineVersion": "12"}, 2 * Decimal("0.1") * 730),
        ({"engine": "postgres", "engineVersion": "13.4"}, 2 * Decimal("0.1") * 730),
    ],
)
def test_old_version_bills_each_vcpu(resource, inputs, usd):
    assert price(resource, **inputs) == ([pytest.approx(usd)], [])


@pytest.mark.parametrize(
    "inputs",
    [
        {"engineVersion": "8.4"},
        {"engineVersion": None},
        {"engine": "postgres", "engineVersion": "16.3"},
        {"engine": "mariadb", "engineVersion": "10.5"},
        {"engineLifecycleSupport": "open-source-rds-extended-support-disabled"},
    ],
)
def test_supported_disabled_and_other_engines_bill_nothing(resource, inputs):
    assert price(resource, **inputs) == ([], [])


def test_unknown_version_and_size_are_listed(resource):
    assert price(resource, engineVersion=UnreadableValue.UNKNOWN) == (
        [], ["its version is not known until deployment: an old one bills more"],
    )  # fmt: skip
    assert price(resource, instanceClass="db.m5.metal") == (
        [],
        ["the vCPUs of db.m5.metal are not in our table"],
    )


@pytest.mark.parametrize(
    ("day", "usd"),
    [((2024, 2, 29), None), ((2024, 3, 1), "0.1"), ((2026, 2, 28), "0.1"), ((2026, 3, 1), "0.2")],
)
def test_price_follows_the_calendar(resource, day, usd):
    assert price(resource, date(*day))[0] == ([] if usd is None else [pytest.approx(2 * Decimal(usd) * 730)])


def test_sizes_and_versions():
    assert [count_class_vcpus(f"db.r5.{size}") for size in ("large", "xlarge", "24xlarge")] == [2, 4, 96]
    assert find_support_dates("postgres", "9.6") == find_support_dates("postgres", "11")
    assert find_support_dates("mysql", "nonsense") is None


def test_public_program_has_the_extended_support_of_its_database():
    (program,) = [each for each in load_programs() if each.name == "aws-py-wordpress-fargate-rds"]
    assert build_preview(program)["config"] == {"aws:region": "us-east-1"}
    measured = measure_program(program)
    assert any(row.what.startswith("extended support") for row in measured.priced_rows)

"""Test the usage file: its effect on a bill, precedence of entries, and mistakes with their line."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost.money import Range
from gpufleet.cost.pricing import pricers
from gpufleet.cost.pricing.component import UsageComponent
from gpufleet.errors import InputError

GROUP = "aws:autoscaling/group:Group"
NAT = "aws:ec2/natGateway:NatGateway"


@pytest.fixture
def read_usage(tmp_path):
    def write(text):
        (tmp_path / "usage.yaml").write_text(text)
        return cost.load_usage_file(tmp_path / "usage.yaml")

    return write


def month(bill, component="machine"):
    return next(charge.usd_per_month for charge in bill.charges if charge.component == component)


def test_hours_scale_machines_and_not_their_disks(read_usage, make_resource, book):
    bill = cost.price_resources(
        [make_resource("a")], book, usage=read_usage("resources:\n  a: {hours_per_month: 100}\n")
    )
    assert month(bill).expected == Decimal("21.957642") * 100
    assert month(bill, "disk:root").expected == Decimal("0.0001") * 100 * 730


def test_schedule_is_converted_to_hours(read_usage, make_resource, book):
    bill = cost.price_resources(
        [make_resource("a")], book, usage=read_usage("resources:\n  a: {schedule: weekdays 8-18}\n")
    )
    assert month(bill).expected == Decimal("21.957642") * Decimal("217.26")


def test_usage_file_overrides_the_size_of_a_group(read_usage, make_resource, book):
    template = make_resource(
        "t", "aws:ec2/launchTemplate:LaunchTemplate", {"instanceType": "g5.2xlarge"}, id="lt-1"
    )
    group = make_resource(
        "g", GROUP, {"minSize": 1, "maxSize": 9, "region": "us-east-1", "launchTemplate": {"id": "lt-1"}}
    )
    bill = cost.price_resources(
        [template, group], book, usage=read_usage("resources:\n  g: {desired: 3, max: 5}\n")
    )
    charge = next(charge for charge in bill.charges if charge.component == "machine")
    assert charge.quantity == Range(Decimal(1), Decimal(3), Decimal(5))


def test_usage_file_can_give_an_unknown_size(read_usage, make_resource, book):
    from gpufleet.engine import UNKNOWN

    template = make_resource(
        "t", "aws:ec2/launchTemplate:LaunchTemplate", {"instanceType": "g5.2xlarge"}, id="lt-1"
    )
    group = make_resource(
        "g",
        GROUP,
        {"minSize": UNKNOWN, "maxSize": UNKNOWN, "region": "us-east-1", "launchTemplate": {"id": "lt-1"}},
    )
    assert any(
        "group size" in gap.reason for gap in cost.price_resources([template, group], book).unpriced_resources
    )
    bill_with_usage = cost.price_resources(
        [template, group], book, usage=read_usage("resources:\n  g: {desired: 2}\n")
    )
    assert month(bill_with_usage).expected == Decimal("1.212") * 2 * 730


def test_traffic_without_a_price_is_reported(read_usage, make_resource, book):
    nat = make_resource("n", NAT, {"region": "us-east-1"})
    bill = cost.price_resources([nat], book, usage=read_usage(f"types:\n  {NAT}: {{processed_gib: 500}}\n"))
    assert [gap.component for gap in bill.unpriced_resources] == ["processed"]
    assert not cost.price_resources([nat], book).unpriced_resources


def test_exact_name_takes_precedence_over_wildcard_and_type(read_usage, make_resource):
    usage_file = read_usage(
        "types:\n  aws:*: {hours_per_month: 1, egress_gib: 7}\n"
        "resources:\n  web-*: {hours_per_month: 2}\n  web-1: {hours_per_month: 3}\n"
    )
    assert usage_file.find_resource_usage(make_resource("web-1")).hours_per_month == 3
    assert usage_file.find_resource_usage(make_resource("web-2")).hours_per_month == 2
    assert usage_file.find_resource_usage(make_resource("db")).hours_per_month == 1
    assert usage_file.find_resource_usage(make_resource("web-1")).egress_gib == 7


def test_urn_identifies_one_resource(read_usage, make_resource):
    resource = make_resource("a")
    assert (
        read_usage(f'resources:\n  "{resource.urn}": {{hours_per_month: 5}}\n')
        .find_resource_usage(resource)
        .hours_per_month
        == 5
    )


def test_unmatched_entry_gives_a_note_with_its_line(read_usage, make_resource, book):
    usage_file = read_usage("resources:\n  a: {hours_per_month: 1}\n  gone: {hours_per_month: 1}\n")
    notes = cost.estimate([make_resource("a")], book=book, usage=usage_file).notes
    assert any(note.endswith("usage.yaml:3: gone is not a resource of this stack") for note in notes)


def test_overlap_hours_scale_the_one_off_cost_of_a_replacement(read_usage, make_resource, book):
    change = cost.StackChange(
        ops={make_resource("a").urn: "replace"}, overlaps=frozenset({make_resource("a").urn})
    )
    cost_diff = cost.diff(
        [make_resource("a")],
        [make_resource("a")],
        change=change,
        book=book,
        usage=read_usage("overlap_hours: 10\n"),
    )
    assert cost_diff.one_off_usd == Decimal("219.68")  # (21.957642 + 0.01) x 10


def test_empty_file_changes_no_usage(read_usage, make_resource):
    assert read_usage("").find_resource_usage(make_resource("a")) == cost.ResourceUsage()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "version: 0.1\n",
            "usage.yaml:1: version: unknown section; Infracost's section: give its keys under",
        ),
        ("resorces: {}\n", "usage.yaml:1: resorces: unknown section; did you mean resources?"),
        ("resources:\n  a: {hours: never}\n", "usage.yaml:2: a.hours: 'never' is not days and hours"),
        (
            "resources:\n  a:\n    hour_per_month: 3\n",
            "usage.yaml:3: a.hour_per_month: unknown usage key; did you mean hours_per_month?",
        ),
        (
            "resources:\n  a: {hours_per_month: 731}\n",
            "usage.yaml:2: a.hours_per_month: 731 is not within the 730 hours",
        ),
        ("resources:\n  a: {desired: 1.5}\n", "usage.yaml:2: a.desired: 1.5 is not a whole number"),
        (
            "resources:\n  a: {egress_gib: -1}\n",
            "usage.yaml:2: a.egress_gib: -1 is not a number of 0 or more",
        ),
        ("resources:\n  a: {min: 3, max: 2}\n", "usage.yaml:2: a: min 3 is above max 2"),
        ("resources:\n  a: 3\n", "usage.yaml:2: a is not a mapping"),
        ("resources: [a]\n", "usage.yaml:1: resources is not a mapping"),
        ("overlap_hours: soon\n", "usage.yaml:1: overlap_hours: 'soon' is not a number"),
        ("- a\n", "usage.yaml:1: the file is not a mapping"),
        ("a: [\n", "usage.yaml:2: is not valid YAML"),
    ],
)
def test_mistakes_are_reported_in_one_line_with_their_place(read_usage, text, line):
    with pytest.raises(InputError) as excinfo:
        read_usage(text)
    assert line in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        cost.load_usage_file(tmp_path / "none.yaml")


def price_bucket(resource, graph):
    """Price a bucket by what its usage file has."""
    usage = graph.usage_of_resource(resource)
    items = (
        ("storage", "s3:standard", "standard.storage_gb"),
        ("calls", "s3:tier_1", "standard.monthly_tier_1_requests"),
    )
    return [
        UsageComponent(
            name, item, key, "aws", "us-east-1", usage.amounts.get(key), is_stored=name == "storage"
        )
        for name, item, key in items
    ]


@pytest.fixture
def bucket_book(monkeypatch):
    monkeypatch.setattr(pricers, "load_pricers", lambda: {"aws:s3/bucket:Bucket": price_bucket})
    prices = {
        "s3:standard": Price(0.023 / 730, "gib", "2026-01-01", "list", "high", "us-east-1", "on_demand")
    }
    prices["s3:tier_1"] = Price(0.000005, "request", "2026-01-01", "list", "high", "us-east-1", "on_demand")
    return cost.PriceBook(find_cloud_part_price=lambda *key: prices.get(key[2]))


def test_amounts_of_the_usage_file_are_charged(read_usage, make_resource, bucket_book):
    usage = read_usage(
        "types:\n  aws:s3/*:\n    standard: {storage_gb: 1000, monthly_tier_1_requests: 2000000}\n"
        "resources:\n  b: {standard.storage_gb: 500}\n"
    )
    bucket = make_resource("b", "aws:s3/bucket:Bucket", {"region": "us-east-1"})
    bill = cost.price_resources([bucket], bucket_book, usage=usage)
    assert bill.unpriced_resources == ()
    assert round(month(bill, "storage").expected, 6) == Decimal("11.5")
    assert round(month(bill, "calls").expected, 6) == 10


def test_unit_price_is_listed_without_an_amount(make_resource, bucket_book):
    bucket = make_resource("b", "aws:s3/bucket:Bucket", {"region": "us-east-1"})
    reasons = [each.reason for each in cost.price_resources([bucket], bucket_book).unpriced_resources]
    assert reasons == [
        "bills by use, 0.000005 USD per request; give standard.monthly_tier_1_requests in the usage file",
        "bills by use, 0.023 USD per GiB-month; give standard.storage_gb in the usage file",
    ]


def test_unit_without_a_price_is_listed(make_resource, bucket_book):
    nothing = cost.PriceBook(find_cloud_part_price=lambda *_: None)
    bucket = make_resource("b", "aws:s3/bucket:Bucket", {"region": "us-east-1"})
    reasons = [each.reason for each in cost.price_resources([bucket], nothing).unpriced_resources]
    assert reasons[1] == (
        "bills by use; give standard.storage_gb in the usage file; no on-demand price for s3:standard in us-east-1"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("types:\n  aws:s3/*:\n    standard: {storage: 5}\n", "unknown usage key.*standard.storage_gb"),
        ("types:\n  aws:s3/*:\n    standard: 5\n", "not a mapping.*standard.storage_gb"),
        ("types:\n  aws:s3/*:\n    standard: {storage_gb: -5}\n", "0 or more"),
        ("types:\n  aws:s3/*:\n    standard: {storage_gb: 1.1e+15}\n", "at most 1,000,000,000,000,000"),
        ("types:\n  aws:s3/*: {desired: 1000000000000001}\n", "at most 1,000,000,000,000,000"),
        ("types:\n  aws:s3/*: {monthly_request: 5}\n", "did you mean monthly_requests"),
    ],
)
def test_invalid_amount_is_refused(read_usage, text, message):
    with pytest.raises(InputError) as error:
        read_usage(text)
    assert re.search(message, str(error.value), re.DOTALL)
    assert re.search(r"usage.yaml:[23]", str(error.value))


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("{egress_gib: 20000}", "egress_gib"),
        ("{desired: 3}", "desired"),
        ("{monthly_requests: 6}", "monthly_requests"),
        ("{standard: {storage_gb: 5}}", "standard.storage_gb"),
    ],
)
def test_figure_without_an_effect_is_named(read_usage, make_resource, book, entry, key):
    usage = read_usage(f"resources:\n  a: {entry}\n")
    bill = cost.price_resources([make_resource("a")], book, usage=usage)
    assert bill.usage_notes == (f"{usage.path}: {key} has no effect on the price of a",)


def test_note_about_a_figure_without_an_effect_names_the_keys_of_the_resource(
    read_usage, make_resource, bucket_book
):
    usage = read_usage("resources:\n  b: {storage_gb: 5}\n")
    bucket = make_resource("b", "aws:s3/bucket:Bucket", {"region": "us-east-1"})
    (note,) = cost.price_resources([bucket], bucket_book, usage=usage).usage_notes
    assert "storage_gb has no effect on the price of b; its keys: " in note
    assert "standard.storage_gb" in note


@pytest.mark.parametrize("key", ["processed_gib", "monthly_data_processed_gb"])
def test_nat_gateway_takes_our_key_and_that_of_infracost(read_usage, make_resource, book, key):
    usage = read_usage(f"resources:\n  n: {{{key}: 400}}\n")
    nat = make_resource("n", NAT, {"region": "us-east-1"})
    bill = cost.price_resources([nat], book, usage=usage)  # a book without the price of a gigabyte
    assert [gap.component for gap in bill.unpriced_resources] == ["processed"]
    assert bill.usage_notes == ()


@pytest.mark.parametrize(
    "entry", ["schedule: weekdays 8-18, hours_per_month: 100", "hours: 5, schedule: daily 1-2"]
)
def test_hours_that_are_given_twice_are_refused(read_usage, entry):
    with pytest.raises(InputError, match=r"usage.yaml:2.*hours are given twice"):
        read_usage(f"resources:\n  a: {{{entry}}}\n")


def test_figure_that_one_of_several_resources_uses_is_not_named(read_usage, make_resource, book):
    usage = read_usage("types:\n  'aws:*': {processed_gib: 500, hours_per_month: 10}\n")
    nat = make_resource("n", NAT, {"region": "us-east-1"})
    assert cost.price_resources([make_resource("a"), nat], book, usage=usage).usage_notes == ()


def test_amount_that_is_charged_is_not_named(read_usage, make_resource, bucket_book):
    usage = read_usage("types:\n  aws:s3/*: {standard: {storage_gb: 5}}\n")
    bucket = make_resource("b", "aws:s3/bucket:Bucket", {"region": "us-east-1"})
    assert cost.price_resources([bucket], bucket_book, usage=usage).usage_notes == ()

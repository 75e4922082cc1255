"""Capacity Block offerings and spot price history: through boto3, from moto and a double of what moto does not have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from click.testing import CliRunner

import cloud_http
from gpufleet import fleet
from gpufleet.cli.prices import prices_command
from gpufleet.errors import InputError
from gpufleet.operations.capacity_blocks import BlockSearch, search_block_offerings
from gpufleet.operations.spot_history import fetch_history, summarise_zone

SEARCH = BlockSearch("p5.48xlarge", 2, 48, "us-east-1")


def offering(number, fee="9441.28", **changes):
    """Return an offering as in the API reference of DescribeCapacityBlockOfferings."""
    values = {
        "capacityBlockOfferingId": f"cb-0123456789abcde{number:02}",
        "instanceType": "p5.48xlarge",
        "availabilityZone": "us-east-1b",
        "instanceCount": 2,
        "startDate": f"2026-12-0{number}T11:30:00.000Z",
        "endDate": f"2026-12-0{number + 2}T11:30:00.000Z",
        "capacityBlockDurationHours": 48,
        "upfrontFee": fee,
        "currencyCode": "USD",
        "tenancy": "default",
        **changes,
    }
    return "".join(f"<{key}>{value}</{key}>" for key, value in values.items())


@pytest.fixture(scope="module")
def aws():
    with cloud_http.serve_aws() as gap:
        yield gap


@pytest.fixture
def account(aws, monkeypatch):
    for name, value in cloud_http.aws_environment(aws.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    aws.seen.clear()
    aws.actions.clear()
    return aws


def serve_offerings(account, *offerings, requests=None):
    def answer(fields):
        if requests is not None:
            requests.append(fields)
        return cloud_http.xml_list("DescribeCapacityBlockOfferings", "capacityBlockOfferingSet", offerings)

    account.actions["DescribeCapacityBlockOfferings"] = answer


def test_offerings_are_listed_cheapest_first_and_nothing_is_bought(account):
    requests = []
    serve_offerings(
        account, offering(3), offering(1, fee="7000.00"), offering(2, fee="8000.00"), requests=requests
    )
    found = search_block_offerings(SEARCH)
    assert [each.fee_usd for each in found] == [7000.0, 8000.0, 9441.28]
    assert found[0].usd_per_machine_hour == pytest.approx(7000 / 96, abs=1e-4)
    assert (requests[0]["InstanceCount"], requests[0]["CapacityDurationHours"]) == ("2", "48")
    assert account.seen == ["DescribeCapacityBlockOfferings"]


def test_printed_lines_are_a_legal_pool_of_the_spec(account):
    from ruamel.yaml import YAML

    serve_offerings(account, offering(1))
    result = CliRunner().invoke(
        prices_command,
        ["blocks", "--machine", "p5.48xlarge", "--count", "2", "--hours", "48", "--region", "us-east-1"],
    )
    assert result.exit_code == 0, result.output
    lines = result.output.partition("in a pool of the spec:\n")[2]
    pool = {"name": "train", "cloud": "aws", **YAML(typ="safe", pure=True).load(lines)}
    spec = fleet.spec.FleetSpec.model_validate({"owner": "research", "pools": [pool]})
    assert spec.pools[0].purchase.offering == "cb-0123456789abcde01"
    assert spec.pools[0].purchase.buy is True


@pytest.mark.parametrize(
    "changes",
    [
        {"currencyCode": "EUR"},
        {"upfrontFee": "NaN"},
        {"upfrontFee": "-5"},
        {"capacityBlockOfferingId": "cb-1}, {kind: on_demand"},
        {"availabilityZone": "us-east-1a]"},
        {"instanceCount": 0},
    ],
)
def test_offerings_that_make_no_sense_are_left_out(account, changes):
    serve_offerings(account, offering(1, **changes))
    assert search_block_offerings(SEARCH) == []


def test_wrong_questions_are_refused_before_aws_is_asked(account):
    with pytest.raises(InputError):
        search_block_offerings(BlockSearch("p5.48xlrage", 2, 48, "us-east-1"))
    with pytest.raises(InputError, match=r"does not sell Capacity Blocks of g5\.xlarge; give one such as p5"):
        search_block_offerings(BlockSearch("g5.xlarge", 2, 48, "us-east-1"))
    with pytest.raises(InputError, match="not a region"):
        search_block_offerings(BlockSearch("p5.48xlarge", 2, 48, "mars-1"))
    noon = datetime(2026, 12, 1, 12, tzinfo=UTC)
    with pytest.raises(InputError, match="no block of 48 hours fits"):
        search_block_offerings(
            BlockSearch("p5.48xlarge", 2, 48, "us-east-1", noon, noon + timedelta(hours=24))
        )
    assert account.seen == []


def test_spot_history_is_read_from_moto(account):
    end = datetime.now(UTC)
    history = fetch_history("us-east-1", ["g5.2xlarge"], end - timedelta(days=7), end)
    assert isinstance(history, dict)
    assert account.seen == ["DescribeSpotPriceHistory"]


START = datetime(2026, 11, 16, tzinfo=UTC)


def hours(count):
    return START + timedelta(hours=count)


def test_mean_and_share_are_weighted_by_time():
    changes = [(hours(-5), 1.0), (hours(18), 2.0), (hours(24), 1.5)]
    row = summarise_zone("g5.2xlarge", "us-east-1a", changes, START, hours(36), region="us-east-1", cap=1.75)
    assert row.mean_usd == pytest.approx((18 * 1.0 + 6 * 2.0 + 12 * 1.5) / 36)
    assert (row.now_usd, row.low_usd, row.high_usd, row.changes) == (1.5, 1.0, 2.0, 2)
    assert row.share_over_cap == pytest.approx(6 / 36, abs=1e-4)
    assert "below on demand" in row.format_line() or row.on_demand_usd < row.mean_usd


def test_a_single_old_price_holds_for_the_whole_window():
    row = summarise_zone("g5.2xlarge", "us-east-1a", [(hours(-90), 0.5)], START, hours(36))
    assert (row.mean_usd, row.changes, row.share_over_cap) == (0.5, 0, None)


def test_a_pool_that_has_no_history_is_refused(project, gpufleet):
    completed = gpufleet("prices", "spot", "-s", "dev", "--pool", "nothing", cwd=project)
    assert completed.returncode == 2
    assert "pool 'nothing' not found" in completed.stderr

"""Test ``gpufleet prices refresh`` as a separate process with fake servers on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from .conftest import FakeResponse
from .test_aws import PRODUCTS

PAGE = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(PRODUCTS[0]), json.dumps(PRODUCTS[3])]}


@pytest.fixture
def run_refresh(tmp_path, clean_env, start_fake_server):
    """Run the command with a fake price list server; all other AWS endpoints are closed."""
    fake_server = start_fake_server(lambda *_: PAGE)
    env = clean_env | {
        "GPUFLEET_PRICES": str(tmp_path / "prices.db"),
        "AWS_ENDPOINT_URL_PRICING": fake_server.base,
        "AWS_ENDPOINT_URL_EC2": fake_server.base,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_MAX_ATTEMPTS": "1",
    }

    def start(*arguments, keys=True):
        credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"} if keys else {}
        return subprocess.run(
            [sys.executable, "-m", "gpufleet", "prices", *arguments],
            cwd=tmp_path, env=env | credentials, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    start.fake_server = fake_server
    return start


LIST = ("refresh", "--source", "aws-price-list", "--region", "us-east-1")


def forbidden(target):
    return "Action=DescribeInstanceTypeOfferings" in target


@pytest.fixture
def no_ec2(run_refresh):
    """Let EC2 say that the account may not ask which types are offered."""
    proper = run_refresh.fake_server.answer
    no = b"<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>"

    def answer(target, headers):
        content = proper(target, headers)
        return FakeResponse(no, 403) if forbidden(target) else content

    run_refresh.fake_server.answer = answer


@pytest.mark.usefixtures("no_ec2")
def test_refreshed_prices_are_used_and_a_second_refresh_reads_nothing(run_refresh):
    day = datetime.now(UTC).date()
    result = run_refresh(*LIST, "--json")
    assert result.returncode == 0, result.stderr
    (source,) = json.loads(result.stdout)["sources"]
    assert (source["state"], source["regions"], source["not_read"]) == ("stored", ["us-east-1"], {})
    assert source["imported"] > 0
    assert "aws-price-list: us-east-1 (1 of 1)" in result.stderr
    offers = json.loads(run_refresh("--machine", "p5.48xlarge", "--region", "us-east-1", "--json").stdout)[
        "offers"
    ]
    on_demand = next(offer for offer in offers if offer["purchase"] == "on_demand")
    assert (on_demand["usd_per_hour"], on_demand["source"]) == (55.04, "aws-price-list")
    assert on_demand["age_days"] <= 1
    if datetime.now(UTC).date() != day:  # midnight: the first refresh of a day reads again
        run_refresh(*LIST)
    requests = len(run_refresh.fake_server.requests)
    second_result = run_refresh(*LIST)
    assert second_result.returncode == 0
    assert "nothing to do" in second_result.stdout
    assert len(run_refresh.fake_server.requests) == requests


def test_missing_credentials_exit_with_3_and_a_hint(run_refresh):
    result = run_refresh(*LIST, keys=False)
    assert result.returncode == 3
    assert "error: aws-price-list: Unable to locate credentials" in result.stderr
    assert "hint: give AWS credentials" in result.stderr
    assert "Traceback" not in result.stderr
    assert run_refresh.fake_server.requests == []


def test_unavailable_service_leaves_a_consistent_store(run_refresh):
    run_refresh.fake_server.trouble = [FakeResponse(b"", 503)] * 99
    result = run_refresh(*LIST)
    assert result.returncode == 3
    assert "not all sources were read: aws-price-list (1 regions)" in result.stderr
    assert "run it again" in result.stderr
    assert "Traceback" not in result.stderr
    status = json.loads(run_refresh("status", "--json").stdout)
    assert status["stored"] == 0
    assert [entry["source"] for entry in status["unfinished"]] == ["aws-price-list"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("refresh", "--region", "Mars-1"), "not a region of aws or gcp or azure"),
        (("refresh", "--cloud", "gcp", "--region", "eastus"), "not a region of gcp"),
        (("refresh", "--accept", "anything"), "no check has the code"),
        (("refresh", "--source", "hearsay"), "is not one of"),
    ],
)
def test_invalid_arguments_are_refused_before_any_request(run_refresh, arguments, message):
    result = run_refresh(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert run_refresh.fake_server.requests == []

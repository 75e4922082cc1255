"""Test ``gpufleet prices refresh --cloud aws --region …`` as a whole: files on loopback in, prices of a program out."""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner

from gpufleet import catalog
from gpufleet.catalog.prices.refresh.aws_file import AwsPriceFileSource
from gpufleet.catalog.prices.source_name import AWS_FILE_SOURCES
from gpufleet.cli import prices
from gpufleet.errors import GpufleetError

from .test_aws_file import FILES, PARTS, serve_files
from .test_aws_part_file import serve_files as serve_part_files

REGION = "eu-west-1"


def serve_all_files(path, query):
    """Answer with the file of any service."""
    is_large = path.split("/")[4] in FILES
    return serve_files(path, query) if is_large else serve_part_files(path, query)


@pytest.fixture
def refresh_region(start_fake_server, store_path, monkeypatch):
    """Run the command in this process; Amazon's files come from a fake server."""
    fake_server = start_fake_server(serve_all_files)
    monkeypatch.setattr(
        "gpufleet.catalog.prices.refresh.AwsPriceFileSource",
        partial(AwsPriceFileSource, base_url=fake_server.base),
    )
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.http_client.MAX_TRIES", 1)

    def run(*arguments):
        command = ["refresh", "--region", REGION, "--json", *arguments]
        return CliRunner().invoke(prices.prices_command, command)

    run.fake_server = fake_server
    return run


def name_files(*names):
    return [option for name in names for option in ("--source", f"aws-file-{name}")]


ALL_FILES = name_files(*(name.removeprefix("aws-file-") for name in AWS_FILE_SOURCES))


def test_a_region_is_read_from_all_files_with_progress(refresh_region):
    result = refresh_region(*ALL_FILES)
    assert result.exit_code == 0, result.output
    sources = json.loads(result.stdout)["sources"]
    assert [source["state"] for source in sources] == ["stored"] * len(AWS_FILE_SOURCES)
    assert "aws-file-rds: eu-west-1 (1 of 1)" in result.stderr
    assert len(refresh_region.fake_server.requests) == len(AWS_FILE_SOURCES)
    for parts in PARTS.values():
        for part, (unit, usd) in parts.items():
            price = catalog.find_cloud_part_price("aws", REGION, part)
            assert (price.unit, price.usd_per_hour) == (unit, pytest.approx(usd)), part
            assert price.source.startswith("aws-file-")


def test_ordinary_machines_are_stored_with_their_systems(refresh_region):
    result = refresh_region(*name_files("ec2"))
    (source,) = json.loads(result.stdout)["sources"]
    for machine, usd in (("m5.large", 0.096), ("m5.large:windows", 0.188), ("m5.large:sles", 0.152)):
        price = catalog.find_machine_price("aws", REGION, machine, "on_demand")
        assert (price.usd_per_hour, price.source) == (usd, "aws-file-ec2"), machine
    # the case's m5.large is that of us-east-1, which differs by less than a jump; inf2 is known by its embedded price
    assert {finding["code"] for finding in source["findings"]} <= {"unknown-machine", "not-offered"}


def test_interrupted_region_reads_only_what_is_missing(refresh_region):
    fake_server, proper = refresh_region.fake_server, refresh_region.fake_server.serve
    fake_server.serve = lambda path, query: b"<html>" if "AmazonRDS" in path else proper(path, query)
    result = refresh_region(*ALL_FILES)
    assert isinstance(result.exception, GpufleetError)
    assert "not all sources were read: aws-file-rds (1 regions)" in str(result.exception)
    fake_server.serve = proper
    fake_server.requests.clear()
    assert refresh_region(*ALL_FILES).exit_code == 0
    assert fake_server.requests == ["/offers/v1.0/aws/AmazonRDS/current/eu-west-1/index.csv"]


def test_a_cloud_without_credentials_is_read_from_its_files(refresh_region):
    """The sources that need credentials are skipped with a line each; the files need none."""
    result = refresh_region("--cloud", "aws")
    assert result.exit_code == 0, result.output
    states = {source["source"]: source["state"] for source in json.loads(result.stdout)["sources"]}
    assert {name: states[name] for name in AWS_FILE_SOURCES} == dict.fromkeys(AWS_FILE_SOURCES, "stored")
    assert states["aws-spot-history"] == "skipped"

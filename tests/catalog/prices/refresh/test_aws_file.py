"""Test the source that streams Amazon's published price files, with a file server on loopback."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tracemalloc
from dataclasses import replace

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_price_check_context
from gpufleet.catalog.prices.refresh import (
    HttpClient,
    RefreshScope,
    RequestRejected,
    SourceUnavailable,
    build_price_sources,
    refresh_prices,
)
from gpufleet.catalog.prices.refresh.aws_file import PRICE_FILES, AwsPriceFileSource
from gpufleet.catalog.prices.source_name import AWS_FILE_SOURCES

from .conftest import DAY, TODAY, FakeResponse, list_visible_prices, read_case

FILES = read_case("aws_files.json")["files"]
HOME = "us-east-1"
PREAMBLE = (
    '"FormatVersion","v1.0"\n"Disclaimer","a, comma"\n"Publication Date","2026-11-20T00:00:00Z"\n'
    '"Version","20261120000000"\n"OfferCode","x"\n'
)


def render_file(service, region=HOME, rows=None):
    columns = FILES[service]["columns"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, quoting=csv.QUOTE_ALL, lineterminator="\n", restval="")
    writer.writeheader()
    for row in FILES[service]["rows"] if rows is None else rows:
        code = region if row["Region Code"] == HOME else row["Region Code"]
        writer.writerow(row | {"Region Code": code})
    return (PREAMBLE + text.getvalue()).encode()


def serve_files(path, query):
    _, offers, version, aws, service, current, region, name = path.split("/")
    assert (offers, version, aws, current, name) == ("offers", "v1.0", "aws", "current", "index.csv")
    return render_file(service, region)


@pytest.fixture
def fetch(start_fake_server, http_client):
    fake_server = start_fake_server(serve_files)

    def fetch_rows(name, region=HOME):
        source = AwsPriceFileSource(name, http_client, fake_server.base)
        return source.fetch_region_prices(region, TODAY)

    fetch_rows.fake_server = fake_server
    return fetch_rows


def prices_by_item(batch):
    return {(row.item, row.purchase, row.upfront): row.usd_per_hour for row in batch.rows}


def test_machines_are_read_with_each_system_and_payment_option(fetch):
    batch = fetch("aws-file-ec2")
    machines = {key: usd for key, usd in prices_by_item(batch).items() if "." in key[0]}
    assert {key: usd for key, usd in machines.items() if key[0].startswith("m5")} == {
        ("m5.large", "on_demand", "none"): 0.096,
        ("m5.large:windows", "on_demand", "none"): 0.188,
        ("m5.large:rhel", "on_demand", "none"): 0.16,
        ("m5.large:sles", "on_demand", "none"): 0.152,
        ("m5.large", "reserved_1y", "none"): 0.06,
        ("m5.large", "reserved_1y", "partial"): pytest.approx(0.029 + 254 / 8760, abs=1e-6),
        ("m5.large", "reserved_1y", "all"): pytest.approx(499 / 8760, abs=1e-6),
        ("m5.large", "reserved_3y", "none"): 0.041,
    }
    assert machines["p5.48xlarge", "on_demand", "none"] == 55.04  # not a Capacity Block's 0.00
    assert batch.left_out == ("aws us-east-1 c5.large on_demand: 2 prices for one purchase option",)


def test_machine_facts_are_those_of_the_file(fetch):
    facts = {row.item: row.facts for row in fetch("aws-file-ec2").rows if row.kind == "machine"}
    assert (facts["m5.large"].vcpus, facts["m5.large"].memory_gib, facts["m5.large"].accelerators) == (
        2,
        8,
        0,
    )
    assert facts["t4g.nano"].arch == "arm64"
    assert facts["p5.48xlarge"].accelerators == 8
    assert facts["inf2.xlarge"] is None  # the file does not state its accelerators


def test_names_with_control_characters_are_not_machines(fetch):
    assert all(row.item.isprintable() for row in fetch("aws-file-ec2").rows)


MONTH = 730
PARTS = {
    "aws-file-ec2": {
        "ebs:gp3": ("gib", 0.08 / MONTH),
        "ebs:standard": ("gib", 0.05 / MONTH),
        "ebs:io1": ("gib", 0.125 / MONTH),
        "ebs:gp3:iops": ("iops", 0.005 / MONTH),
        "ebs:io2:iops": ("iops", 0.065 / MONTH),
        "ebs:io2:iops:tier2": ("iops", 0.0455 / MONTH),
        "ebs:gp3:throughput": ("mib_per_s", 0.04 / MONTH),
        "nat_gateway": ("gateway", 0.045),
        "nat_gateway:gib": ("gib_processed", 0.045),
        "ebs:snapshot": ("gib", 0.05 / MONTH),
    },
    "aws-file-vpc": {"public_ipv4": ("address", 0.005), "vpc_endpoint": ("endpoint", 0.01)},
    "aws-file-elb": {
        "load_balancer:application": ("load_balancer", 0.0225),
        "load_balancer:unit:application": ("capacity_unit", 0.008),
        "load_balancer:network": ("load_balancer", 0.0225),
        "load_balancer:unit:network": ("capacity_unit", 0.006),
        "load_balancer:classic": ("load_balancer", 0.025),
    },
    "aws-file-eks": {"kubernetes_cluster": ("cluster", 0.1)},
    "aws-file-ecs": {
        "fargate:linux_x86:vcpu": ("vcpu", 0.04048),
        "fargate:linux_x86:memory": ("gib", 0.004445),
        "fargate:linux_arm:vcpu": ("vcpu", 0.03238),
        "fargate:linux_arm:memory": ("gib", 0.00356),
        "fargate:ephemeral_storage": ("gib", 0.000111),
    },
    "aws-file-rds": {
        "rds:mysql:db.m5.large": ("instance", 0.171),
        "rds:postgresql:db.m5.large": ("instance", 0.178),
        "rds:aurora-mysql:db.r6g.large": ("instance", 0.26),
        "rds:oracle-se2-li:db.m5.large": ("instance", 0.438),
        "rds:oracle-se2-byol:db.m5.large": ("instance", 0.171),
        "rds:sqlserver-se:db.m5.large": ("instance", 0.977),
        "rds:storage:gp3": ("gib", 0.115 / MONTH),
        "rds:extended_support:year_1": ("vcpu", 0.1),
    },
    "aws-file-elasticache": {
        "elasticache:redis:cache.m5.large": ("node", 0.156),
        "elasticache:memcached:cache.t3.micro": ("node", 0.017),
    },
    "aws-file-opensearch": {
        "opensearch:m5.large.search": ("node", 0.142),
        "opensearch:storage:gp3": ("gib", 0.122 / MONTH),
    },
    "aws-file-lambda": {
        "lambda:request": ("request", 2e-7),
        "lambda:x86:gib_second": ("gib_second", 1.66667e-5),
        "lambda:arm:gib_second": ("gib_second", 1.33334e-5),
        "lambda:disk_gib_second": ("gib_second", 3.09e-8),
    },
    "aws-file-s3": {
        "s3:standard:storage": ("gib", 0.023 / MONTH),
        "s3:standard_infrequent_access:storage": ("gib", 0.0125 / MONTH),
    },
    "aws-file-ecr": {"ecr:storage": ("gib", 0.1 / MONTH)},
    "aws-file-cloudwatch": {
        "cloudwatch:logs:standard:ingested": ("gib", 0.5),
        "cloudwatch:logs:scanned": ("gib", 0.005),
        "cloudwatch:logs:storage": ("gib", 0.03 / MONTH),
    },
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_each_file_have_our_names_and_units(fetch, name):
    parts = {row.item: (row.unit, row.usd_per_hour) for row in fetch(name).rows if row.kind == "part"}
    assert parts == {item: (unit, pytest.approx(usd)) for item, (unit, usd) in PARTS[name].items()}


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
@pytest.mark.parametrize("name", PARTS)
def test_refreshed_prices_pass_the_checks(fetch, name, region):
    rows = fetch(name, region).rows
    known = load_price_check_context(None, rows)
    if region != HOME:  # the case has the prices of another region
        known = replace(known, prices={})
    findings = list(check_prices(rows, known))
    # of a machine with accelerators the catalogue must know how many
    expected = [("unknown-machine", "inf2.xlarge")] if name == "aws-file-ec2" and region != HOME else []
    assert [(finding.code, finding.row.item) for finding in findings] == expected


@pytest.mark.parametrize(
    "item",
    [
        "ebs:gp3",
        "nat_gateway",
        "public_ipv4",
        "kubernetes_cluster",
        "load_balancer:application",
        "vpc_endpoint",
    ],
)
def test_refreshed_part_has_the_embedded_price_of_the_same_name(item):
    usd = next(parts[item][1] for parts in PARTS.values() if item in parts)
    assert catalog.find_cloud_part_price("aws", HOME, item).usd_per_hour == pytest.approx(usd)


def test_a_usage_type_of_another_region_has_a_prefix(start_fake_server, http_client):
    rows = [row | {"usageType": f"EUW1-{row['usageType']}"} for row in FILES["AWSELB"]["rows"]]
    fake_server = start_fake_server(lambda path, _: render_file("AWSELB", "eu-west-1", rows))
    source = AwsPriceFileSource("aws-file-elb", http_client, fake_server.base)
    assert {row.item for row in source.fetch_region_prices("eu-west-1", TODAY).rows} == set(
        PARTS["aws-file-elb"]
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no column 'SKU'"),
        (b"<html>no</html>\n" * 9, "has no column 'SKU'"),
        (render_file("AmazonEKS")[:-40], "unexpected end of data|fields, the header has"),
        (render_file("AmazonEKS").replace(b"0.1000000000", b"0.1\x000"), "NUL character"),
        (render_file("AmazonEKS").replace(b"0.1000000000", b"cheap"), "'cheap' is not a number"),
        (render_file("AmazonEKS").replace(b"0.1000000000", b"NaN"), "'NaN' is not a number"),
        (render_file("AmazonEKS").replace(b"Region Code", b"Region"), "has no column 'Region Code'"),
        (b"\xff\xfe\x00" + render_file("AmazonEKS"), "is not UTF-8 text"),
        (PREAMBLE.encode() + b"x" * (3 * 1024**2), "a line of more than 1,048,576 characters"),
        (render_file("AmazonEKS") + b'"\x1b[2J"\n', "has 1 fields, the header has"),
    ],
    ids=range(10),
)
def test_hostile_files_make_the_source_unavailable(start_fake_server, http_client, content, message):
    fake_server = start_fake_server(lambda *_: content)
    with pytest.raises(SourceUnavailable, match=message) as caught:
        AwsPriceFileSource("aws-file-eks", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)
    assert caught.value.message.isprintable()


def test_negative_prices_are_left_out(start_fake_server, http_client):
    content = render_file("AmazonEKS").replace(b'"0.1000000000"', b'"-0.1"')
    fake_server = start_fake_server(lambda *_: content)
    batch = AwsPriceFileSource("aws-file-eks", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)
    assert (batch.rows, len(batch.left_out)) == ((), 1)


@pytest.mark.parametrize("region", ["eastus", "us-east-1/../../x", "US-EAST-1", ""])
def test_region_cannot_change_the_path(region):
    with pytest.raises(RequestRejected, match="not a region"):
        AwsPriceFileSource("aws-file-eks").fetch_region_prices(region, TODAY)


def test_region_without_the_service_is_rejected(start_fake_server, http_client):
    fake_server = start_fake_server(lambda *_: b"", [FakeResponse(b"<Error/>", 403)])
    with pytest.raises(RequestRejected, match=r"index\.csv: HTTP 403"):
        AwsPriceFileSource("aws-file-eks", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.http_client.CHUNK_BYTES", 1000)


def serve_ranges(fake_server, content, tag='"v1"', cut_after=()):
    """Answer with byte ranges, and cut the first answers after so many bytes."""
    cuts = iter(cut_after)

    def answer(target, headers):
        fake_server.requests.append(target)
        fake_server.headers.append(headers)
        start = int(headers.get("Range", "bytes=0-")[6:-1])
        fresh = headers.get("If-Range", tag) != tag
        body = content if fresh else content[start:]
        return FakeResponse(body, 206 if start and not fresh else 200, {"ETag": tag}, next(cuts, None))

    fake_server.answer = answer


def test_dropped_download_continues_where_it_ended(start_fake_server, http_client, small_chunks):
    fake_server = start_fake_server(serve_files)
    content = render_file("AmazonEC2")
    source = AwsPriceFileSource("aws-file-ec2", http_client, fake_server.base)
    calm = source.fetch_region_prices(HOME, TODAY)
    fake_server.headers.clear()
    serve_ranges(fake_server, content, cut_after=(3000, 2000))
    batch = source.fetch_region_prices(HOME, TODAY)
    assert [headers.get("Range") for headers in fake_server.headers] == [None, "bytes=3000-", "bytes=5000-"]
    assert batch == calm


def test_file_that_changes_during_the_download_is_not_mixed(start_fake_server, http_client, small_chunks):
    fake_server = start_fake_server(serve_files)
    serve_ranges(fake_server, render_file("AmazonEC2"), cut_after=(3000,))
    first = fake_server.answer
    fake_server.answer = lambda target, headers: (
        first(target, headers | {"If-Range": '"older"'}) if "Range" in headers else first(target, headers)
    )
    with pytest.raises(SourceUnavailable, match="changed during the download"):
        AwsPriceFileSource("aws-file-ec2", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)


def test_download_that_never_advances_ends(start_fake_server, http_client):
    fake_server = start_fake_server(serve_files)
    serve_ranges(fake_server, render_file("AmazonEC2"), cut_after=itertools.repeat(0))
    with pytest.raises(SourceUnavailable, match="4 tries"):
        AwsPriceFileSource("aws-file-ec2", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)
    assert len(fake_server.requests) == 4


def test_download_larger_than_the_limit_ends(start_fake_server, http_client, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.http_client.MAX_STREAM_BYTES", 4000)
    fake_server = start_fake_server(serve_files)
    with pytest.raises(SourceUnavailable, match="size limit"):
        AwsPriceFileSource("aws-file-ec2", http_client, fake_server.base).fetch_region_prices(HOME, TODAY)


def test_memory_does_not_grow_with_the_file(monkeypatch):
    """Fifty times the rows take no more memory: other regions' rows are not kept."""

    def peak_bytes(copies):
        head, _, body = render_file("AmazonEC2", "eu-west-1").partition(b'VPCNetworkingSupport"\n')
        chunks = [head + b'VPCNetworkingSupport"\n', *[body] * copies]
        source = AwsPriceFileSource("aws-file-ec2")
        monkeypatch.setattr(source.http, "stream_bytes", lambda _: iter(chunks))
        tracemalloc.start()
        source.fetch_region_prices(HOME, TODAY)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(1)  # what is cached on first use
    assert peak_bytes(50) < peak_bytes(1) + 64 * 1024


def test_interrupted_refresh_reads_only_the_missing_files(start_fake_server, http_client, store):
    fake_server = start_fake_server(serve_files)
    scope = RefreshScope(DAY, ("us-east-1", "eu-west-1"))
    sources = [
        AwsPriceFileSource(name, http_client, fake_server.base) for name in ("aws-file-eks", "aws-file-vpc")
    ]
    proper = fake_server.serve
    fake_server.serve = lambda path, query: (
        b"<html>" if "AmazonVPC" in path and "eu-west-1" not in path else proper(path, query)
    )
    lines = []
    outcomes = refresh_prices(store, sources, scope, report=lines.append)
    assert [outcome.state for outcome in outcomes] == ["stored", "stored"]
    assert list(outcomes[1].failed) == ["us-east-1"]
    assert "aws-file-eks: us-east-1 (1 of 2)" in lines
    fake_server.serve = proper
    fake_server.requests.clear()
    refresh_prices(store, sources, scope)
    assert fake_server.requests == ["/offers/v1.0/aws/AmazonVPC/current/us-east-1/index.csv"]
    assert {(row[1], row[2]) for row in list_visible_prices(store)} == {
        (region, item)
        for region in scope.regions
        for item in ("kubernetes_cluster", "public_ipv4", "vpc_endpoint")
    }


def test_files_are_read_by_default_and_the_api_only_if_named():
    scope = RefreshScope(DAY, (HOME,))
    default = [source.source_name for source in build_price_sources((), "aws", scope)]
    assert default[: len(AWS_FILE_SOURCES)] == list(AWS_FILE_SOURCES) == list(PRICE_FILES)
    assert "aws-price-list" not in default
    (named,) = build_price_sources(("aws-price-list",), None, scope)
    assert named.source_name == "aws-price-list"


def test_progress_of_a_large_file_is_reported(start_fake_server, clock, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.http_client.REPORTED_STREAM_BYTES", 1024**2)
    lines = []
    fake_server = start_fake_server(lambda *_: b"x" * (2 * 1024**2))
    client = HttpClient(sleep=clock.sleep, clock=clock, report=lines.append)
    assert sum(map(len, client.stream_bytes(f"{fake_server.base}/a"))) == 2 * 1024**2
    assert [line.rpartition(": ")[2] for line in lines] == ["1 MiB of 2", "2 MiB of 2"]


def test_case_rows_use_the_columns_of_the_file():
    for file in FILES.values():
        assert {name for row in file["rows"] for name in row} <= set(file["columns"]), json.dumps(
            file["columns"]
        )

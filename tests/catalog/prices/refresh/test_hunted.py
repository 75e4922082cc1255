from __future__ import annotations

import io
import zipfile

import pytest

from gpufleet.catalog.prices.refresh import SourceUnavailable
from gpufleet.catalog.prices.refresh.gpuhunt_archive import GpuhuntArchiveSource

from .conftest import TODAY

HEAD = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data\n"
)
ROWS = (
    'a2-highgpu-1g,us-central1-a,3.67,12,85.0,1,A100,40.0,False,,nvidia,,x86,"{""is_dws_calendar_mode"": false}"\n'
    'a2-highgpu-1g,us-central1-b,3.67,12,85.0,1,A100,40.0,False,,nvidia,,x86,"{""is_dws_calendar_mode"": false}"\n'
    'a2-highgpu-1g,us-central1-b,1.90,12,85.0,1,A100,40.0,True,,nvidia,,x86,"{}"\n'
    "a3-highgpu-8g,us-central1-a,38.32,208,1872.0,8,H100,80.0,False,,nvidia,gcp-dws-calendar-mode,x86,"
    '"{""is_dws_calendar_mode"": true}"\n'
    'a3-highgpu-8g,us-central1-a,88.49,208,1872.0,8,H100,80.0,False,,nvidia,,x86,"{""is_dws_calendar_mode"": false}"\n'
    'a2-highgpu-1g,europe-west4-a,3.75,12,85.0,1,A100,40.0,False,,nvidia,,x86,"{}"\n'
)


def build_archive(text=HEAD + ROWS, name="gcp.csv"):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive_file:
        archive_file.writestr(name, text)
    return packed.getvalue()


def build_archive_server(content, version=b"20261120\n"):
    return lambda path, _: version if path.endswith("/version") else content


def test_archive_of_a_cloud_gives_the_prices_of_a_region(start_fake_server, http_client):
    fake_server = start_fake_server(build_archive_server(build_archive()))
    source = GpuhuntArchiveSource("gcp", http_client, fake_server.base)
    rows = {(row.item, row.purchase): row for row in source.fetch_region_prices("us-central1", TODAY).rows}
    assert rows["a2-highgpu-1g", "on_demand"].usd_per_hour == 3.67
    assert rows["a2-highgpu-1g", "spot"].usd_per_hour == 1.9
    assert rows["a2-highgpu-1g", "spot"].as_of == "2026-11-20"
    assert len(source.fetch_region_prices("europe-west4", TODAY).rows) == 1
    assert fake_server.requests == ["/gcp/version", "/gcp/20261120/catalog.zip"]


def test_calendar_mode_offer_is_not_an_on_demand_price(start_fake_server, http_client):
    """gpuhunt marks them by a flag and gives them as not spot: half of on-demand, the mismatch that circulates."""
    source = GpuhuntArchiveSource(
        "gcp", http_client, start_fake_server(build_archive_server(build_archive())).base
    )
    usd_by_key = {
        (row.item, row.purchase): row.usd_per_hour
        for row in source.fetch_region_prices("us-central1", TODAY).rows
    }
    assert usd_by_key["a3-highgpu-8g", "on_demand"] == 88.49


@pytest.mark.parametrize(
    ("content", "version", "reason"),
    [
        (b"no archive", b"20261120", "cannot be read"),
        (build_archive()[:-30], b"20261120", "cannot be read"),
        (build_archive(name="aws.csv"), b"20261120", "cannot be read"),
        (build_archive(HEAD), b"20261120", "cannot be read"),
        (build_archive("a,b\n1,2\n"), b"20261120", "cannot be read"),
        (build_archive(HEAD + ROWS.replace("3.67", "cheap")), b"20261120", "cannot be read"),
        (build_archive(), b"../../secret", "is not a version"),
        (build_archive(), b"<html>", "is not a version"),
        (build_archive(), b"", "is not a version"),
    ],
)
def test_invalid_archive_or_version_makes_the_source_unavailable(
    start_fake_server, http_client, content, version, reason
):
    with pytest.raises(SourceUnavailable, match=reason):
        GpuhuntArchiveSource(
            "gcp", http_client, start_fake_server(build_archive_server(content, version)).base
        ).fetch_region_prices("us-central1", TODAY)


def test_version_that_is_not_a_date_gives_undated_prices(start_fake_server, http_client):
    source = GpuhuntArchiveSource(
        "gcp", http_client, start_fake_server(build_archive_server(build_archive(), b"v7-rc1")).base
    )
    assert {row.as_of for row in source.fetch_region_prices("us-central1", TODAY).rows} == {""}

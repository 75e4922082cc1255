"""Test price bundles: what one store writes another one pulls, and what is refused before it is unpacked."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import PriceStore, bundle
from gpufleet.catalog.prices.refresh import HttpClient
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError

from .conftest import KEY, build_row, store_rows
from .refresh.conftest import FakeResponse, start_fake_server  # noqa: F401 - a fixture

DISK = ("aws", "us-east-1", "ebs:gp3", "on_demand")


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def written(store, tmp_path):
    """Return the file of a bundle with a machine and a disk, and what was written."""
    disk = build_row(0.08 / 730, key=DISK, kind="part", unit="gib", as_of="2026-11-02")
    store_rows(store, build_row(1.3), disk, build_row(0.9, as_of=""))
    return tmp_path / "prices.zip", bundle.write_bundle(store, tmp_path / "prices.zip")


@pytest.fixture
def other_store(tmp_path, monkeypatch):
    path = tmp_path / "other.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    with PriceStore(path) as store:
        yield store


def make_bundle(manifest=None, **members):
    buffer = io.BytesIO()
    described = {"format": bundle.FORMAT, "as_of": "2026-11-02", "prices": 1}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(bundle.MANIFEST, json.dumps(described | (manifest or {})))
        for name, text in members.items():
            archive.writestr(f"{name}.csv", text)
    return buffer.getvalue()


ROW = "cloud,region,machine,purchase,usd_per_hour,as_of,source\naws,us-east-1,g5.2xlarge,on_demand,1.3,2026-11-02,x\n"


def test_what_one_store_writes_another_reads(written, other_store):
    path, description = written
    assert (description.as_of, description.prices) == ("2026-11-02", 2)  # an undated price stays at home
    content = bundle.fetch_bundle(str(path), description.sha256)
    manifest, summary = bundle.import_bundle(other_store, content, "it")
    assert (manifest.prices, summary.imported, summary.set_apart) == (2, 2, 0)
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3
    assert catalog.find_cloud_part_price(*DISK).usd_per_hour == pytest.approx(0.08 / 730)
    assert bundle.import_bundle(other_store, content, "it")[1].repeated


def test_the_same_prices_give_the_same_bytes(written, store, tmp_path):
    again = bundle.write_bundle(store, tmp_path / "again.zip")
    assert again.sha256 == written[1].sha256


def test_a_store_without_prices_writes_nothing(store, tmp_path):
    with pytest.raises(CheckFailed, match="has no dated price"):
        bundle.write_bundle(store, tmp_path / "none.zip")
    assert not (tmp_path / "none.zip").exists()


def test_another_content_is_refused_before_it_is_unpacked(written, monkeypatch):
    path, description = written
    path.write_bytes(path.read_bytes() + b"x")
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("unpacked before the check"))
    with pytest.raises(InputError, match=r"has the SHA-256 [0-9a-f]{64}, expected"):
        bundle.fetch_bundle(str(path), description.sha256)
    with pytest.raises(InputError, match="--sha256: is not a SHA-256"):
        bundle.fetch_bundle(str(path), "abc")


def test_an_older_bundle_needs_the_option_and_replaces_no_newer_price(other_store):
    newer = make_bundle(machine=ROW)
    older = make_bundle({"as_of": "2026-10-01"}, machine=ROW.replace("1.3,2026-11-02", "1.1,2026-10-01"))
    bundle.import_bundle(other_store, newer, "newer")
    with pytest.raises(InputError, match="older: is of 2026-10-01, older than the bundle of 2026-11-02"):
        bundle.import_bundle(other_store, older, "older")
    bundle.import_bundle(other_store, older, "older", allow_older=True)
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", "is a damaged archive"),
        (make_bundle({"format": "other"}), "expected the format gpufleet-prices-1, got 'other'"),
        (make_bundle({"as_of": "soon"}), "must have as_of, a date"),
        (make_bundle({"as_of": "2999-01-01"}), "is in the future"),
        (make_bundle({"prices": 2}, machine=ROW), "contains 1 prices, its manifest says 2"),
        (make_bundle(machine=ROW.replace("1.3", "-1")), "is negative"),
        (make_bundle(machine="x" * (bundle.MAX_MEMBER_BYTES + 1)), "is larger than a price bundle may be"),
        (make_bundle(**{f"m{number}": "" for number in range(40)}), "is larger than a price bundle may be"),
        (make_bundle({"format": "x" * 5000}), "is not JSON|is empty|no JSON"),
    ],
)
def test_a_bad_bundle_changes_nothing(other_store, content, message):
    with pytest.raises(InputError, match=message):
        bundle.import_bundle(other_store, content, "it")
    assert other_store.connection.execute("SELECT count(*) FROM prices").fetchone() == (0,)
    assert bundle.find_last_bundle_day(other_store) is None


def test_a_bundle_is_fetched_from_an_address_through_a_redirect(start_fake_server):  # noqa: F811
    content = make_bundle(machine=ROW)
    server = start_fake_server(lambda path, _: content if path == "/b" else FakeResponse(b"", 404))
    server.trouble = [FakeResponse(b"", 302, {"Location": "/b"})]
    client = HttpClient(tries=1, max_redirects=3)
    assert bundle.fetch_bundle(f"{server.base}/a", digest(content), client) == content
    server.trouble = [FakeResponse(b"", 302, {"Location": "/b"})]
    with pytest.raises(EnvironmentFault, match="HTTP 302"):
        bundle.fetch_bundle(f"{server.base}/a", digest(content), HttpClient(tries=1))
    with pytest.raises(InputError, match="must be an https address"):
        bundle.fetch_bundle("http://prices.example/b", digest(content))


def test_commands_write_and_pull(written, gpufleet, tmp_path):
    path, description = written
    environment = {"GPUFLEET_PRICES": str(tmp_path / "prices.db")}
    shown = gpufleet("prices", "bundle", tmp_path / "b.zip", "--json", cwd=tmp_path, env=environment)
    assert json.loads(shown.stdout)["sha256"] == description.sha256
    environment = {"GPUFLEET_PRICES": str(tmp_path / "third.db")}
    PriceStore(tmp_path / "third.db").close_connection()
    pulled = gpufleet("prices", "pull", path, "--sha256", description.sha256, cwd=tmp_path, env=environment)
    assert "bundle of 2026-11-02: 2 prices imported" in pulled.stdout
    refused = gpufleet("prices", "pull", path, "--sha256", "0" * 64, cwd=tmp_path, env=environment)
    assert refused.returncode == 2

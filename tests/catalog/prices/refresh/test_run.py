"""Test that the store stays consistent after failures of a source and after kills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog.prices import PriceRow, PriceStore
from gpufleet.catalog.prices.refresh import (
    MissingCredentials,
    RefreshScope,
    RegionPrices,
    RequestRejected,
    SourceUnavailable,
    build_price_sources,
    build_refresh_scope,
    find_refresh_failure,
    refresh_prices,
)
from gpufleet.catalog.prices.refresh.azure import AzureRetailPriceSource
from gpufleet.catalog.prices.refresh.azure_parts import build_part_filters
from gpufleet.catalog.prices.refresh.google import GoogleBillingSource
from gpufleet.catalog.prices.refresh.source import build_region_prices
from gpufleet.errors import EnvironmentFault, InputError

from .conftest import (
    DAY,
    FakeResponse,
    check_store_integrity,
    count_staged_prices,
    list_visible_prices,
    read_case,
)
from .test_azure import PAGES, build_retail_api
from .test_google import SKUS, catalogue

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-west-2")
SCOPE = RefreshScope(DAY, REGIONS)


@dataclass
class ScriptedSource:
    """A fake source: one price for each region, or the scripted fault."""

    faults: dict[str, Exception] = field(default_factory=dict)
    usd: float = 1.3
    source_name: str = "scripted"
    cloud_name: str = "aws"
    regions_read: list[str] = field(default_factory=list)

    def fetch_region_prices(self, region, scope):
        self.regions_read.append(region)
        if region in self.faults:
            raise self.faults[region]
        row = PriceRow(
            "aws", region, "g5.2xlarge", "on_demand", self.usd, scope.day.isoformat(), self.source_name
        )
        return build_region_prices([row])


def list_visible_usd(store):
    return {row[1]: row[5] for row in list_visible_prices(store)}


def refresh_one(store, source, scope=SCOPE, **more):
    (outcome,) = refresh_prices(store, [source], scope, **more)
    check_store_integrity(store)
    return outcome


def test_prices_of_all_regions_are_stored_and_counted(store):
    outcome = refresh_one(store, ScriptedSource())
    assert (outcome.state, outcome.regions) == ("stored", REGIONS)
    assert list_visible_usd(store) == dict.fromkeys(REGIONS, 1.3)
    assert outcome.summary.imported == 5
    assert outcome.new + outcome.unchanged + len(outcome.changes) == 5
    assert count_staged_prices(store) == 0


def test_changed_prices_are_counted_with_their_relative_change(store):
    refresh_one(store, ScriptedSource(usd=1.3))
    tomorrow = RefreshScope(date(2026, 11, 22), REGIONS)
    outcome = refresh_one(store, ScriptedSource(usd=1.43), tomorrow)
    assert (outcome.new, outcome.unchanged, len(outcome.changes)) == (0, 0, 5)
    assert outcome.changes[0].relative_price_change == pytest.approx(0.1)
    assert (
        refresh_one(store, ScriptedSource(usd=1.43), RefreshScope(date(2026, 11, 23), REGIONS)).unchanged == 5
    )


def test_suspicious_prices_are_set_apart_and_not_counted_as_changes(store):
    refresh_one(store, ScriptedSource(usd=1.3))
    outcome = refresh_one(store, ScriptedSource(usd=13.0), RefreshScope(date(2026, 11, 22), REGIONS))
    assert {finding.code for finding in outcome.summary.findings} == {"jump"}
    assert (outcome.summary.imported, outcome.summary.set_apart, outcome.changes) == (0, 5, ())
    assert catalog.find_machine_price("aws", "us-east-1", "g5.2xlarge", "on_demand").usd_per_hour == 1.3
    outcome_accepted = refresh_one(
        store, ScriptedSource(usd=13.0), RefreshScope(date(2026, 11, 23), REGIONS), accept=["jump"]
    )
    assert (outcome_accepted.summary.imported, len(outcome_accepted.changes)) == (5, 5)


def test_second_refresh_on_the_same_day_reads_nothing_unless_forced(store):
    refresh_one(store, ScriptedSource())
    second = ScriptedSource(usd=1.4)
    assert refresh_one(store, second).state == "known"
    assert second.regions_read == []
    assert refresh_one(store, second, force=True).state == "stored"
    assert set(list_visible_usd(store).values()) == {1.4}
    assert refresh_one(store, ScriptedSource(usd=1.5)).state == "known"


def test_second_refresh_on_the_same_day_reads_only_the_additional_regions(store):
    refresh_one(store, ScriptedSource(), RefreshScope(DAY, REGIONS[:2]))
    source = ScriptedSource()
    refresh_one(store, source)
    assert source.regions_read == list(REGIONS[2:])
    assert len(list_visible_usd(store)) == 5


def test_unavailable_region_is_read_by_the_next_refresh(store):
    outcome = refresh_one(store, ScriptedSource({"us-west-2": SourceUnavailable("away")}))
    assert (outcome.state, outcome.failed) == ("stored", {"us-west-2": "away"})
    assert "us-west-2" not in list_visible_usd(store)
    fault = find_refresh_failure([outcome], sources_named=False)
    assert isinstance(fault, EnvironmentFault)
    assert "scripted (1 regions)" in fault.message
    source = ScriptedSource()
    assert refresh_one(store, source).state == "stored"
    assert source.regions_read == ["us-west-2"]


def test_three_unavailable_regions_in_a_row_stop_the_source_and_keep_staged_prices(store):
    away = {region: SourceUnavailable("away") for region in REGIONS[2:]}
    source = ScriptedSource(away)
    outcome = refresh_one(store, source)
    assert (outcome.state, outcome.reason) == ("unfinished", "away")
    assert list_visible_usd(store) == {}
    assert count_staged_prices(store) == 2
    later = ScriptedSource()
    assert refresh_one(store, later).state == "stored"
    assert later.regions_read == list(REGIONS[2:])
    assert len(list_visible_usd(store)) == 5


def test_rejected_region_is_not_a_failure(store):
    outcome = refresh_one(
        store, ScriptedSource({region: RequestRejected("not enabled") for region in REGIONS[1:]})
    )
    assert (outcome.state, set(outcome.rejected)) == ("stored", set(REGIONS[1:]))
    assert find_refresh_failure([outcome], sources_named=True) is None


def test_source_that_rejects_every_region_is_skipped(store):
    outcome = refresh_one(
        store, ScriptedSource({region: RequestRejected("not enabled") for region in REGIONS})
    )
    assert (outcome.state, outcome.reason) == ("skipped", "not enabled")
    assert store.find_unfinished_run("scripted") is None


def test_missing_credentials_of_one_source_do_not_stop_the_others(store):
    lost = ScriptedSource(
        dict.fromkeys(REGIONS, MissingCredentials("none here", hint="set a key")), source_name="lost"
    )
    outcomes = refresh_prices(store, [lost, ScriptedSource()], SCOPE)
    assert [outcome.state for outcome in outcomes] == ["skipped", "stored"]
    assert lost.regions_read == ["us-east-1"]
    assert find_refresh_failure(outcomes, sources_named=False) is None
    fault = find_refresh_failure(outcomes, sources_named=True)
    assert (fault.message, fault.hint, fault.exit_code) == ("lost: none here", "set a key", 3)
    assert find_refresh_failure(outcomes[:1], sources_named=False)


def test_prices_read_before_credentials_expired_stay_staged(store):
    outcome = refresh_one(store, ScriptedSource({"us-west-2": MissingCredentials("expired", hint="log in")}))
    assert (outcome.state, count_staged_prices(store), list_visible_usd(store)) == ("unfinished", 2, {})
    assert refresh_one(store, ScriptedSource()).state == "stored"
    assert len(list_visible_usd(store)) == 5


@pytest.mark.parametrize(
    "error", [KeyError("SpotPrice"), ValueError("could not convert"), TypeError("not a list")]
)
def test_malformed_response_marks_the_region_as_failed(store, error):
    outcome = refresh_one(store, ScriptedSource({"us-west-2": error}))
    assert type(error).__name__ in outcome.failed["us-west-2"]
    assert len(list_visible_usd(store)) == 4


def test_two_concurrent_refreshes_store_one_result(store, store_path):
    class Overtaken(ScriptedSource):
        def fetch_region_prices(self, region, scope):
            if region == REGIONS[-1]:
                with PriceStore(store_path) as other:
                    assert refresh_one(other, ScriptedSource()).state == "stored"
            return super().fetch_region_prices(region, scope)

    assert refresh_one(store, Overtaken()).state == "known"
    assert len(list_visible_usd(store)) == 5
    assert refresh_one(store, ScriptedSource()).state == "known"


def test_unfinished_refresh_of_an_earlier_day_is_discarded(store):
    away = {region: SourceUnavailable("away") for region in REGIONS[2:]}
    refresh_one(store, ScriptedSource(away, usd=9.9), RefreshScope(date(2026, 11, 20), REGIONS))
    source = ScriptedSource()
    refresh_one(store, source)
    assert source.regions_read == list(REGIONS)
    assert set(list_visible_usd(store).values()) == {1.3}
    assert count_staged_prices(store) == 0


def test_response_without_any_price_skips_the_source(store):
    class Empty(ScriptedSource):
        def fetch_region_prices(self, region, scope):
            return RegionPrices(())

    outcome = refresh_one(store, Empty())
    assert (outcome.state, outcome.reason) == ("skipped", "the response has no usable price")


@pytest.mark.parametrize("usd", [float("nan"), float("inf"), -1.0])
def test_invalid_amount_is_left_out(store, usd):
    outcome = refresh_one(store, ScriptedSource(usd=usd))
    assert outcome.state == "skipped"
    assert list_visible_usd(store) == {}


@given(st.lists(st.sampled_from(["ok", "away", "no"]), min_size=5, max_size=5), st.integers(0, 3))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_sequence_of_failures_ends_with_the_same_store(tmp_path_factory, pattern, calls):
    kinds = {"away": SourceUnavailable("away"), "no": RequestRejected("no")}
    faults = {region: kinds[kind] for region, kind in zip(REGIONS, pattern, strict=True) if kind != "ok"}
    folder = tmp_path_factory.mktemp("stores")
    with PriceStore(folder / "disturbed.db") as disturbed, PriceStore(folder / "calm.db") as calm:
        for _ in range(calls):
            refresh_one(disturbed, ScriptedSource(faults))
        refresh_one(disturbed, ScriptedSource())
        refresh_one(calm, ScriptedSource())
        assert list_visible_prices(disturbed) == list_visible_prices(calm)
        assert count_staged_prices(disturbed) == 0


TROUBLES = {
    "throttled": FakeResponse(b"", 429, {"Retry-After": "1"}),
    "a server's fault": FakeResponse(b"", 500),
    "a bad page": FakeResponse(b"<html>"),
    "a dropped connection": FakeResponse(b'{"Items": []}', cut=3),
}


@pytest.fixture
def azure(start_fake_server):
    server = start_fake_server(lambda *_: {})
    server.serve = build_retail_api(PAGES, server.base.rpartition(":")[2])
    return server


@pytest.mark.parametrize(
    ("what", "fault_count"), [(what, fault_count) for what in sorted(TROUBLES) for fault_count in (2, 9)]
)
def test_network_errors_end_with_the_same_store(azure, http_client, store, what, fault_count):
    """Twice is ridden out; for longer than all tries, and then called again: the prices are the same."""
    source = AzureRetailPriceSource(http_client, f"{azure.base}/api/retail/prices")
    scope = RefreshScope(DAY, ("eastus",))
    with PriceStore(store.path.with_name("calm.db")) as calm:
        refresh_one(calm, source, scope)
        expected = list_visible_prices(calm)
    azure.trouble = [TROUBLES[what]] * fault_count
    outcomes = []
    while azure.trouble or not outcomes or outcomes[-1].state != "stored":
        outcomes.append(refresh_one(store, source, scope))
        assert outcomes[-1].state == "stored" or list_visible_prices(store) == []
        assert len(outcomes) < 6
    assert list_visible_prices(store) == expected
    assert len(outcomes) == (1 if fault_count == 2 else 3)


def test_google_refresh_interrupted_between_pages_stores_nothing_until_it_is_complete(
    start_fake_server, http_client, store, monkeypatch
):
    monkeypatch.setenv("GOOGLE_API_KEY", "x")
    google = start_fake_server(catalogue(SKUS))
    proper, google.serve = (
        google.serve,
        lambda path, query: b"<html>" if query.get("pageToken") else proper(path, query),
    )
    scope = RefreshScope(DAY, ("us-central1", "us-east1"))
    outcome = refresh_one(store, GoogleBillingSource(http_client, google.base), scope)
    assert (outcome.state, list_visible_prices(store)) == ("unfinished", [])
    google.serve = proper
    assert refresh_one(store, GoogleBillingSource(http_client, google.base), scope).state == "stored"
    assert {row[1] for row in list_visible_prices(store)} == {"us-central1"}


CHILD = """
import os, signal, sys
from datetime import date
from pathlib import Path
from gpufleet.catalog.prices import PriceStore
from gpufleet.catalog.prices.refresh import HttpClient, RefreshScope, refresh_prices
from gpufleet.catalog.prices.refresh.azure import AzureRetailPriceSource
base, path, last = sys.argv[1:4]
left = int(last)

def count(_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

with PriceStore(Path(path)) as store:
    store.connection.set_trace_callback(count)
    scope = RefreshScope(date(2026, 11, 21), tuple(sys.argv[4:]))
    refresh_prices(store, [AzureRetailPriceSource(HttpClient(), base)], scope, report=print)
    print("statements:", int(last) - left)
"""
REQUESTS_PER_REGION = 1 + len(build_part_filters("eastus"))  # and one of licences for all regions
TOWNS = ("eastus", "westus2", "northeurope")


def answer_any_region(path, query):
    """Answer for any region, a little late, so that there is a middle to be killed in."""
    items = [item for page in PAGES for item in page]
    region = next(
        town for town in (*TOWNS, "") if f"armRegionName eq '{town}'" in query["$filter"] or not town
    )
    time.sleep(0.01)
    return {"Items": [{**item, "armRegionName": region} for item in items], "NextPageLink": None}


@pytest.fixture
def slow_azure(start_fake_server):
    """Answer the runs that are killed."""
    return start_fake_server(answer_any_region)


@pytest.fixture
def second_azure(start_fake_server):
    """Answer the runs after a killed one, whose last request may arrive at its own server at any time."""
    return start_fake_server(answer_any_region)


def start_refresh(fake_server, path, last=-1):
    """Start a refresh as a process of its own; it is killed before its ``last`` SQL statement, where that is given."""
    command = [
        sys.executable,
        "-u",
        "-c",
        CHILD,
        f"{fake_server.base}/api/retail/prices",
        str(path),
        str(last),
        *TOWNS,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_resumed_run(fake_server, path, calm):
    """Run it again: only what is missing is asked for, and the store ends as if nothing had happened."""
    with PriceStore(path) as store:
        check_store_integrity(store)
        visible = list_visible_prices(store)
        assert visible in ([], calm)
        batch_count = store.connection.execute("SELECT count(DISTINCT name) FROM batches").fetchone()[0]
    fake_server.requests.clear()
    second = start_refresh(fake_server, path)
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    missing = len(TOWNS) - batch_count
    assert len(fake_server.requests) == REQUESTS_PER_REGION * missing + (1 if missing else 0)
    assert visible or not batch_count or f"resumed, {batch_count} regions are stored" in output
    with PriceStore(path) as store:
        check_store_integrity(store)
        assert list_visible_prices(store) == calm
        assert count_staged_prices(store) == 0


@pytest.fixture
def calm(slow_azure, tmp_path):
    with PriceStore(tmp_path / "calm.db") as store:
        refresh_prices(
            store,
            [AzureRetailPriceSource(base_url=f"{slow_azure.base}/api/retail/prices")],
            RefreshScope(DAY, TOWNS),
        )
        return list_visible_prices(store)


@pytest.mark.parametrize("after", range(len(TOWNS)))
def test_refresh_killed_while_reading_resumes(slow_azure, second_azure, tmp_path, calm, after):
    first = start_refresh(slow_azure, tmp_path / "killed.db")
    for line in first.stdout:
        if line.startswith(f"azure-retail-prices: {TOWNS[after]} "):
            break
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    first.stdout.close()
    check_resumed_run(second_azure, tmp_path / "killed.db", calm)


def test_refresh_killed_before_any_database_statement_resumes(slow_azure, second_azure, tmp_path, calm):
    """Begin, stage, judge, publish, rebuild, finish: killed at seven places, the store is whole each time."""
    undisturbed = start_refresh(slow_azure, tmp_path / "counted.db", 10**6)
    output, _ = undisturbed.communicate(timeout=60)
    statements = int(output.rpartition("statements: ")[2])
    assert statements > 50
    for at in range(1, statements + 1, statements // 6):
        path = tmp_path / f"killed-{at}.db"
        first = start_refresh(slow_azure, path, at)
        first.communicate(timeout=60)
        assert first.returncode == -signal.SIGKILL
        check_resumed_run(second_azure, path, calm)


@pytest.mark.parametrize(
    ("faults_by_region", "cloud", "names"),
    [
        (("us-east-1",), None, {"aws"}),
        (("us-east1", "eastus"), None, {"gcp", "azure"}),
        ((), "azure", {"azure"}),
        ((), None, {"aws", "gcp", "azure"}),
    ],
)
def test_sources_are_selected_by_region_and_cloud(faults_by_region, cloud, names):
    sources = build_price_sources((), cloud, build_refresh_scope(DAY, faults_by_region, cloud))
    assert {source.cloud_name for source in sources} == names
    assert not any(source.source_name.startswith("gpuhunt") for source in sources)


def test_gpuhunt_sources_are_used_only_if_named():
    assert [
        source.source_name for source in build_price_sources(("gpuhunt-aws",), None, build_refresh_scope(DAY))
    ] == ["gpuhunt-aws"]


@pytest.mark.parametrize(("region", "cloud"), [("us-east-1", "gcp"), ("US East", None), ("", None)])
def test_region_of_no_cloud_is_refused(region, cloud):
    with pytest.raises(InputError, match="--region"):
        build_refresh_scope(DAY, (region,), cloud)


@pytest.mark.parametrize(
    ("region", "cloud", "suggested"),
    [
        ("us-esat-1", "aws", "us-east-1"),
        ("us-esat-1", None, "us-east-1"),
        ("eurpoe-west4", "gcp", "europe-west4"),
        ("westeruope", None, "westeurope"),
    ],
)
def test_misspelt_region_is_refused_with_a_suggestion_unless_forced(region, cloud, suggested):
    with pytest.raises(InputError) as caught:
        build_refresh_scope(DAY, (region,), cloud)
    assert f"did you mean {suggested}?" in str(caught.value)
    scope = build_refresh_scope(DAY, (region,), cloud, allow_new_regions=True)
    assert scope.regions == (region,)


@pytest.mark.parametrize(
    ("region", "suggested"),
    [
        ("US-EAST-1", "did you mean us-east-1?"),
        ("eu-west-1a", "did you mean eu-west-1?"),
        ("x y", "write it like"),
    ],
)
def test_region_of_no_cloud_is_refused_with_the_closest_name(region, suggested):
    with pytest.raises(InputError, match=re.escape(suggested)):
        build_refresh_scope(DAY, (region,))


@pytest.mark.parametrize("region", ["us-east-1", "us-west-9", "europe-west99", "eastus7"])
def test_region_that_can_be_new_is_read(region):
    assert build_refresh_scope(DAY, (region,)).regions == (region,)


def test_case_files_name_their_source():
    for name in ("aws_products.json", "azure_items.json", "gcp_skus.json"):
        assert read_case(name)["_source"]

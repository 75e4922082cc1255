from __future__ import annotations

import json

from gpufleet.catalog.prices import PriceRow
from gpufleet.catalog.prices.refresh import (
    PriceChange,
    RefreshScope,
    SourceRefreshOutcome,
    SourceUnavailable,
    refresh_prices,
)
from gpufleet.catalog.prices.refresh.report import format_refresh_outcomes, format_refresh_outcomes_json

from .conftest import DAY
from .test_run import REGIONS, ScriptedSource


def test_summary_counts_new_changed_and_set_apart_prices(store):
    refresh_prices(store, [ScriptedSource(usd=1.3)], RefreshScope(DAY.replace(day=20), REGIONS))
    outcomes = refresh_prices(
        store,
        [ScriptedSource({"us-west-2": SourceUnavailable("away")}, usd=1.43)],
        RefreshScope(DAY, REGIONS),
    )
    text = format_refresh_outcomes(outcomes)
    assert text.splitlines()[0] == (
        "scripted: 4 prices of 4 regions: 0 new, 4 changed (+10.0% to +10.0%, median +10.0%), "
        "0 unchanged, 0 set apart"
    )
    assert "aws us-east-1 g5.2xlarge on_demand: 1.3 -> 1.43 (+10.0%)" in text
    assert "not read: us-west-2: away" in text
    document = json.loads(format_refresh_outcomes_json(outcomes))["sources"][0]
    assert (document["state"], document["imported"], len(document["changed"])) == ("stored", 4, 4)
    assert document["changed"][0]["change"] == 0.1
    assert document["not_read"] == {"us-west-2": "away"}


def test_findings_are_listed_with_their_code(store):
    refresh_prices(store, [ScriptedSource(usd=1.3)], RefreshScope(DAY.replace(day=20), REGIONS))
    outcomes = refresh_prices(store, [ScriptedSource(usd=130)], RefreshScope(DAY, REGIONS))
    assert "jump (far from the last known price): 5" in format_refresh_outcomes(outcomes)
    assert json.loads(format_refresh_outcomes_json(outcomes))["sources"][0]["findings"][0]["code"] == "jump"


def test_unread_regions_have_a_reason():
    outcomes = [
        SourceRefreshOutcome("a", "aws", "skipped", "no credentials", "set a key"),
        SourceRefreshOutcome("b", "aws", "unfinished", "away"),
        SourceRefreshOutcome("c", "aws", "known", "already read on this day"),
    ]
    assert format_refresh_outcomes(outcomes).splitlines() == [
        "a: skipped: no credentials; set a key",
        "b: unfinished, none of its prices are in use yet: away",
        "c: nothing to do, already read on this day (--force reads it again)",
    ]


def test_long_lists_are_truncated_in_text_and_complete_in_json(store):
    (outcome,) = refresh_prices(store, [ScriptedSource()], RefreshScope(DAY, REGIONS))
    outcome.left_out += [f"machine {number}" for number in range(20)]
    assert "and 15 more" in format_refresh_outcomes([outcome])
    assert len(json.loads(format_refresh_outcomes_json([outcome]))["sources"][0]["left_out"]) == 20


def test_change_from_a_zero_price_has_no_percentage():
    assert (
        PriceChange(PriceRow("aws", "r", "m", "spot", 1.0, "2026-11-21", "t"), 0.0).relative_price_change == 0
    )

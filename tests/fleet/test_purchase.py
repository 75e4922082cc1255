"""Test the kinds of purchase: what each accepts, costs and is called, and the ladder over them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet import Purchase
from gpufleet.fleet.purchase import PRICES_BY_KIND

BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
SPOT = {"kind": "spot"}
ON_DEMAND = {"kind": "on_demand"}
KINDS = [
    ON_DEMAND,
    SPOT,
    {"kind": "reserved"},
    {"kind": "committed", "term": "1y"},
    BLOCK,
    {"kind": "flex_start", "max_run_hours": 24},
    {"ladder": [SPOT, ON_DEMAND]},
]


def parse(purchase):
    return TypeAdapter(Purchase).validate_python(purchase)


@pytest.mark.parametrize(
    ("purchase", "price", "label"),
    [
        (ON_DEMAND, "on_demand", "on_demand"),
        (SPOT, "spot", "spot"),
        ({"kind": "reserved"}, "on_demand", "reserved"),
        ({"kind": "reserved", "term": "1y"}, "reserved_1y", "reserved-1y"),
        ({"kind": "reserved", "term": "3y"}, "reserved_3y", "reserved-3y"),
        ({"kind": "committed", "term": "1y"}, "reserved_1y", "committed-1y"),
        ({"kind": "committed", "term": "3y"}, "reserved_3y", "committed-3y"),
        (BLOCK, "capacity_block", "capacity_block"),
        ({"kind": "flex_start", "max_run_hours": 24}, "dws_flex", "flex_start"),
        ({"ladder": [BLOCK, SPOT]}, "capacity_block", "capacity_block"),
    ],
)
def test_purchase_has_its_price_kind_and_tag(purchase, price, label):
    assert (parse(purchase).price_kind, parse(purchase).tag_value) == (price, label)


@pytest.mark.parametrize("purchase", KINDS, ids=[each.get("kind", "ladder") for each in KINDS])
def test_every_purchase_kind_has_the_same_attributes(purchase):
    attributes = (
        "allocation", "buy", "fallback", "machines", "max_run_hours", "max_usd_per_hour", "offering",
        "on_eviction", "price_kind", "reservation", "restore_minutes", "rungs", "tag_value", "term", "work",
    )  # fmt: skip
    assert [name for name in attributes if not hasattr(parse(purchase), name)] == []


def test_plain_purchase_is_its_only_rung():
    for purchase in (parse(each) for each in KINDS[:-1]):
        assert purchase.rungs == (purchase,)


def test_spot_with_a_fallback_is_a_ladder_of_two():
    short, long = parse(SPOT | {"fallback": "on_demand"}), parse({"ladder": [SPOT, ON_DEMAND]})
    assert [rung.kind for rung in short.rungs] == [rung.kind for rung in long.rungs] == ["spot", "on_demand"]
    assert short.fallback == long.fallback == "on_demand"


def test_ladder_answers_for_its_rungs():
    reserved = {"kind": "reserved", "reservation": "cr-1", "term": "1y"}
    capped = SPOT | {"max_usd_per_hour": 9.0, "on_eviction": "stop", "machines": ["p4de.24xlarge"]}
    ladder = parse({"ladder": [reserved, capped]})
    assert (ladder.kind, ladder.reservation, ladder.term) == ("ladder", "cr-1", "1y")
    assert (ladder.max_usd_per_hour, ladder.on_eviction, ladder.machines) == (9.0, "stop", ("p4de.24xlarge",))
    assert (ladder.fallback, ladder.work, ladder.buy, ladder.offering) == (None, None, False, None)


@pytest.mark.parametrize(
    ("purchase", "message"),
    [
        ({"kind": "flex_start"}, "Field required"),
        ({"kind": "committed"}, "Field required"),
        ({"ladder": [SPOT]}, "at least 2 items"),
        (SPOT | {"ladder": [SPOT, ON_DEMAND]}, "has kind: spot and a ladder; remove kind"),
        ({"ladder": [SPOT, {"ladder": [SPOT, ON_DEMAND]}]}, "Unable to extract tag"),
        (SPOT | {"allocation": "cheapest"}, "Input should be 'price-capacity-optimized'"),
    ],
)
def test_impossible_purchase_is_refused(purchase, message):
    with pytest.raises(ValidationError) as excinfo:
        parse(purchase)
    assert message in str(excinfo.value)


def test_prices_by_kind_are_those_of_the_models():
    rungs = [rung for each in KINDS for rung in parse(each).rungs]
    assert {rung.kind for rung in rungs} == set(PRICES_BY_KIND)
    assert all(rung.price_kind in PRICES_BY_KIND[rung.kind] for rung in rungs)


def test_every_cloud_lists_the_price_of_every_kind_it_sells():
    sold = {kind for cloud in catalog.CLOUDS.values() for kind in cloud.price_kinds}
    assert {parse(each).price_kind for each in KINDS} <= sold


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (
            {"purchase": {"kind": "flex_start", "max_run_hours": 1}},
            "give a kind that it sells: on_demand, spot, reserved, committed, capacity_block",
        ),
        ({"purchase": {"ladder": [SPOT, {"kind": "flex_start", "max_run_hours": 1}]}}, "purchase.ladder[1]"),
        ({"purchase": ON_DEMAND | {"max_run_hours": 4}}, "(rule run-hours-need-flex-start)"),
        ({"purchase": {"ladder": [ON_DEMAND | {"machines": []}, SPOT]}}, "(rule choice-needs-spot)"),
    ],
)
def test_rules_look_at_every_rung(parse_pool, pool, message):
    with pytest.raises(InputError) as excinfo:
        parse_pool(**pool)
    assert message in str(excinfo.value)

"""Test which price is used: the newest of snapshot and store that is not after the requested date."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet.catalog import price_query, query
from gpufleet.catalog.entry import Machine, MachineAccelerators, MachineOffer, Price
from gpufleet.catalog.offer_filter import OfferFilter

KEY = ("aws", "us-east-1", "zz.large", "on_demand")


def build_price(usd, day):
    return Price(usd, "machine", day, "a test", "high", "us-east-1", "on_demand")


class Store:
    def __init__(self, price_and_day):
        self.price_and_day = price_and_day
        self.queries = []

    def find_newest_price(self, *key_and_day):
        self.queries.append(key_and_day)
        return self.price_and_day


@pytest.mark.parametrize(
    ("embedded_day", "stored_day", "on_date", "usd"),
    [
        ("2026-07-01", "2026-07-02", None, 2.0),
        ("2026-07-01", "2026-07-01", None, 2.0),  # of one day, the stored
        ("2026-07-01", "2026-06-30", None, 1.0),
        ("2026-07-01", None, None, 1.0),
        (None, "2020-01-01", None, 2.0),
        (None, None, None, None),
        ("", "2020-01-01", None, 2.0),  # undated is oldest
        ("2026-07-01", None, date(2026, 6, 30), None),
        ("2026-07-01", None, date(2026, 7, 1), 1.0),
        ("2026-07-01", "2026-01-01", date(2026, 6, 30), 2.0),
        ("", None, date(2020, 1, 1), 1.0),
    ],
)
def test_newest_price_before_the_date_is_used(monkeypatch, embedded_day, stored_day, on_date, usd):
    embedded = {} if embedded_day is None else {KEY: build_price(1.0, embedded_day or None)}
    store = Store(None if stored_day is None else (build_price(2.0, stored_day), stored_day))
    monkeypatch.setattr(price_query.price_table, "find_listed_price", lambda _, *key: embedded.get(key))
    monkeypatch.setattr(price_query.reader, "open_price_reader", lambda: store)
    price = price_query.find_machine_price(*KEY, on_date)
    assert (price.usd_per_hour if price else None) == usd
    assert store.queries == [(*KEY, on_date)]


def build_offer(usd, cards=0, **where):
    accelerators = (MachineAccelerators("H100 SXM5 80GB", cards, 80.0, 1.0),) if cards else ()
    name, cloud = where.get("machine", "m"), where.get("cloud", "aws")
    machine = Machine(name, cloud, 8, 64.0, "x86_64", accelerators, None, 0, (), "", "")
    return MachineOffer(
        machine, where.get("region", "r"), where.get("purchase", "spot"), build_price(usd, "2026-07-01")
    )


@pytest.mark.parametrize(
    ("options", "cards", "usd"),
    [
        ({}, 8, 80.0),
        ({"compare_by": "accelerator"}, 8, 10.0),
        ({"count": 8}, 8, 80.0),
        ({"count": 9}, 8, 160.0),
        ({"count": 1}, 8, 80.0),
        ({"count": 16, "compare_by": "accelerator"}, 8, 160.0),
    ],
)
def test_offer_is_compared_by_hour_or_by_accelerator(options, cards, usd):
    assert OfferFilter(**options).comparison_usd_per_hour(build_offer(80.0, cards)) == usd


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True), ({"cloud": "aws"}, True), ({"cloud": "gcp"}, False), ({"region": "r"}, True),
        ({"region": "x"}, False), ({"machine": "m"}, True), ({"machine": "n"}, False), ({"purchase": "spot"}, True),
        ({"purchase": "x"}, False), ({"accelerator": "h100"}, True), ({"accelerator": "a100"}, False),
        ({"max_usd_per_hour": 80.0}, True), ({"max_usd_per_hour": 79.99}, False), ({"count": 1}, True),
        ({"cloud": "aws", "region": "x"}, False), ({"max_usd_per_hour": 10.0, "compare_by": "accelerator"}, True),
        ({"max_usd_per_hour": 9.99, "compare_by": "accelerator"}, False),
    ],
)  # fmt: skip
def test_offer_filter_matches_each_field(options, expected):
    assert OfferFilter(**options).matches_offer(build_offer(80.0, 8)) is expected


def test_machine_without_cards_cannot_be_compared_by_accelerator():
    cardless = build_offer(1.0)
    assert [
        OfferFilter(**options).matches_offer(cardless)
        for options in ({}, {"count": 1}, {"compare_by": "accelerator"})
    ] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("name", "cloud", "message"),
    [
        ("zzz", "aws", "unknown aws machine 'zzz'"),
        ("zzz", None, "unknown machine 'zzz'"),
        ("p4d.", "aws", "did you mean p4d.24xlarge?"),
        ("P4D.24XLARGE", "aws", "did you mean p4d.24xlarge?"),
        ("a2-megagpu-16g", "aws", "a2-megagpu-16g is a machine of gcp"),
    ],
)
def test_unknown_machine_is_refused_with_suggestions(name, cloud, message):
    with pytest.raises(query.InputError) as excinfo:
        query.get_machine(name, cloud)
    assert message in str(excinfo.value)


@pytest.mark.parametrize(
    ("names", "text"),
    [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_alternatives_are_joined_with_commas_and_or(names, text):
    assert query._join_alternatives(names) == text


def test_long_list_is_truncated_and_counted():
    assert query._format_names(["b", "a"]) == "a, b"
    assert query._format_names(list("gfedcba")) == "a, b, c, d, e, f and 1 more"
    assert query._format_names(list("fedcba")) == "a, b, c, d, e, f"

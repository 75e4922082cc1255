"""Which price is in force: the newer of snapshot and store, never one of a later day than asked for."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet.catalog import query
from gpufleet.catalog.model import AcceleratorCount, Machine, MachineOffer, Price
from gpufleet.catalog.offers import Wanted

KEY = ("aws", "us-east-1", "zz.large", "on_demand")


def priced(usd, day):
    return Price(usd, "machine", day, "a test", "high", "us-east-1", "on_demand")


class Store:
    def __init__(self, found):
        self.found = found
        self.asked = []

    def newest(self, *key_and_day):
        self.asked.append(key_and_day)
        return self.found


@pytest.mark.parametrize(
    ("ours", "stored", "on", "usd"),
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
def test_the_newer_price_is_in_force(monkeypatch, ours, stored, on, usd):
    embedded = {} if ours is None else {KEY: priced(1.0, ours or None)}
    store = Store(None if stored is None else (priced(2.0, stored), stored))
    monkeypatch.setattr(query.table, "prices", lambda: embedded)
    monkeypatch.setattr(query.reader, "opened", lambda: store)
    found = query.price(*KEY, on)
    assert (found.usd_per_hour if found else None) == usd
    assert store.asked == [(*KEY, on)]


def offer(usd, cards=0, **where):
    carried = (AcceleratorCount("H100 SXM5 80GB", cards, 80.0, 1.0),) if cards else ()
    name, cloud = where.get("machine", "m"), where.get("cloud", "aws")
    machine = Machine(name, cloud, 8, 64.0, "x86_64", carried, None, 0, (), "", "")
    return MachineOffer(
        machine, where.get("region", "r"), where.get("purchase", "spot"), priced(usd, "2026-07-01")
    )


@pytest.mark.parametrize(
    ("wanted", "cards", "usd"),
    [
        ({}, 8, 80.0),
        ({"by": "accelerator"}, 8, 10.0),
        ({"count": 8}, 8, 80.0),
        ({"count": 9}, 8, 160.0),
        ({"count": 1}, 8, 80.0),
        ({"count": 16, "by": "accelerator"}, 8, 160.0),
    ],
)
def test_what_offers_are_compared_by(wanted, cards, usd):
    assert Wanted(**wanted).cost(offer(80.0, cards)) == usd


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True), ({"cloud": "aws"}, True), ({"cloud": "gcp"}, False), ({"region": "r"}, True),
        ({"region": "x"}, False), ({"machine": "m"}, True), ({"machine": "n"}, False), ({"purchase": "spot"}, True),
        ({"purchase": "x"}, False), ({"accelerator": "h100"}, True), ({"accelerator": "a100"}, False),
        ({"most_usd": 80.0}, True), ({"most_usd": 79.99}, False), ({"count": 1}, True),
        ({"cloud": "aws", "region": "x"}, False), ({"most_usd": 10.0, "by": "accelerator"}, True),
        ({"most_usd": 9.99, "by": "accelerator"}, False),
    ],
)  # fmt: skip
def test_which_offers_are_wanted(wanted, fits):
    assert Wanted(**wanted).fits(offer(80.0, 8)) is fits


def test_a_machine_without_cards_cannot_be_compared_by_them():
    bare = offer(1.0)
    assert [Wanted(**each).fits(bare) for each in ({}, {"count": 1}, {"by": "accelerator"})] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("name", "cloud", "words"),
    [
        ("zzz", "aws", "unknown aws machine 'zzz'"),
        ("zzz", None, "unknown machine 'zzz'"),
        ("p4d.", "aws", "did you mean p4d.24xlarge?"),
        ("P4D.24XLARGE", "aws", "did you mean p4d.24xlarge?"),
        ("a2-megagpu-16g", "aws", "a2-megagpu-16g is a machine of gcp"),
    ],
)
def test_an_unknown_machine_says_what_might_be_meant(name, cloud, words):
    with pytest.raises(query.InputError) as caught:
        query.machine(name, cloud)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("names", "text"),
    [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_a_choice_in_words(names, text):
    assert query._either(names) == text


def test_a_long_list_is_cut_and_counted():
    assert query._some(["b", "a"]) == "a, b"
    assert query._some(list("gfedcba")) == "a, b, c, d, e, f and 1 more"
    assert query._some(list("fedcba")) == "a, b, c, d, e, f"

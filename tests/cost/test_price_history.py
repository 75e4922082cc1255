"""Test prices over time from a real store: the plot and the price-only difference."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet import cost
from gpufleet.catalog.prices import PriceRow, PriceStore
from gpufleet.cost.analysis.price_date import PriceDates
from gpufleet.cost.analysis.price_history import load_price_history

DAYS = {"2026-03-01": 20.0, "2026-05-01": 21.0, "2026-10-01": 22.0}
MACHINE = {"instanceType": "p4d.24xlarge", "region": "us-east-1"}


@pytest.fixture
def stored_prices(tmp_path, monkeypatch):
    """Fill a store with three days of one machine's price; the snapshot adds the price of 2026-07-06."""
    path = tmp_path / "prices.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    with PriceStore(path) as store:
        for day, usd in DAYS.items():
            row = PriceRow("aws", "us-east-1", "p4d.24xlarge", "on_demand", usd, day, "written by hand")
            store.commit_run(store.stage_batch("one", [row], store.begin_or_resume_run("test", day)))


@pytest.mark.usefixtures("stored_prices")
def test_every_date_in_the_store_is_a_point(make_resource):
    points = load_price_history(cost.price_resources([make_resource(inputs=MACHINE)]).charges)
    machine, disk = (
        "p4d.24xlarge in us-east-1, on demand",
        "ebs:gp3 in us-east-1, on demand",
    )  # the image's disk
    assert {(day.isoformat(), float(usd)) for what, day, usd in points if what == machine} == set(
        DAYS.items()
    )
    assert {what for what, _, _ in points} == {machine, disk}


@pytest.mark.usefixtures("stored_prices")
def test_html_page_draws_the_price_history(make_resource):
    cost_diff = cost.diff([], [make_resource(inputs=MACHINE)])
    text = cost.render_diff(cost_diff, "html")
    assert "p4d.24xlarge in us-east-1, on demand" in text.split("Price history</h2>")[1].split("<h2>")[0]


@pytest.mark.usefixtures("stored_prices")
def test_price_only_diff_is_computed_from_the_local_store(make_resource):
    stack = [make_resource(inputs=MACHINE)]
    cost_diff = cost.diff(stack, stack, dates=PriceDates(date(2026, 4, 1), date(2026, 5, 15)))
    assert float(cost_diff.change_usd_per_month) == 730.0  # a dollar an hour more
    assert cost_diff.prices.same_stack

"""Test what a budget buys at the embedded prices."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from gpufleet import catalog
from gpufleet.cost.analysis.budget import find_budget_options
from gpufleet.cost.money import HOURS_PER_MONTH


@pytest.fixture(autouse=True)
def no_store(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUFLEET_PRICES", "embedded")


def test_affordable_hours_are_budget_divided_by_price():
    (option,) = find_budget_options(
        Decimal(500), machine="g5.2xlarge", region="us-east-1", purchase="on_demand"
    )
    price = catalog.find_machine_price("aws", "us-east-1", "g5.2xlarge", "on_demand")
    assert option.hours == int(500 / Decimal(str(price.usd_per_hour)))  # 500 / 1.212 = 412
    assert (option.hours, option.machines_all_month) == (412, 0)


def test_machine_is_bought_with_each_number_of_attached_cards():
    options = find_budget_options(Decimal(200), accelerator="T4", cloud="gcp", purchase="on_demand")
    counts = {each.offer.accelerator_count for each in options if each.offer.machine.name == "n1-standard-4"}
    assert counts == {1, 2, 4}


def test_budget_below_a_monthly_commitment_buys_none():
    def options_for(budget):
        return find_budget_options(Decimal(budget), machine="p4d.24xlarge", cloud="aws", purchase="on_demand")

    (machine,) = options_for(2000)
    monthly_usd = machine.machine_usd_per_hour * HOURS_PER_MONTH
    assert machine.machines_all_month == 0
    assert machine.hours > 0
    three_years = find_budget_options(monthly_usd / 10, purchase="reserved_3y", machine="a2-megagpu-16g")
    assert three_years == []
    (reserved,) = find_budget_options(monthly_usd * 2, purchase="reserved_3y", machine="a2-megagpu-16g")
    assert reserved.machines_all_month >= 1


def test_each_machine_and_purchase_is_listed_once_in_its_cheapest_region():
    options = find_budget_options(Decimal(5000), accelerator="A100", limit=500)
    keys = [(option.offer.machine.name, option.offer.purchase) for option in options]
    assert len(keys) == len(set(keys)) > 5
    for option in options:
        others = catalog.search_offers(machine=option.offer.machine.name, purchase=option.offer.purchase)
        assert option.offer.price.usd_per_hour == min(offer.price.usd_per_hour for offer in others)


def test_command_prints_affordable_hours_for_a_budget(gpufleet, tmp_path):
    result = gpufleet("cost", "budget", "--budget", "200-500", "--accelerators", "T4", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "$200.00 a month buys, one of:" in result.stdout
    assert "$500.00 a month buys, one of:" in result.stdout
    document = json.loads(gpufleet("cost", "budget", "--budget", "500", "--json", cwd=tmp_path).stdout)
    assert document[0]["buys"][0]["price"]["source"]


@pytest.mark.parametrize("budget", ["0", "lots", "500-200", "-5", "1e3"])
def test_invalid_amount_is_refused_in_one_line(gpufleet, tmp_path, budget):
    result = gpufleet("cost", "budget", f"--budget={budget}", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1

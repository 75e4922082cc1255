from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpufleet import fleet

FACTS = {
    "capital_eur": {"value": 3820, "source": "order"},
    "usd_per_eur": {"value": 1.10, "source": "planning rate", "assumption": True},
    "life_years": 4,
    "watts_per_node": {"value": 7, "source": "measured"},
    "usd_per_kwh": {"value": 0.30, "source": "tariff", "assumption": True},
}

DATED = ("capital_eur", "usd_per_eur", "watts_per_node", "usd_per_kwh")


def cost(**changes):
    told = {**FACTS, **changes}
    return fleet.HardwareCost.model_validate(
        {name: value for name, value in told.items() if value is not None}
    )


def test_rack_of_twenty_blades_by_hand():
    # capital: 3,820 EUR * 1.10 / (4 * 8,760 h) = 0.119920 USD/h; power: 20 * 7 W = 0.14 kW * 0.30 = 0.042 USD/h
    assert cost().usd_per_hour(20) == pytest.approx(0.119920 + 0.042, abs=1e-6)


def test_shipped_rack_costs_the_same(repo_root):
    rack = fleet.load_rack(repo_root / "inventory/blades-1.yaml")
    assert rack.usd_per_hour == pytest.approx(0.161920, abs=1e-6)
    assert "usd_per_eur: assumption, planning rate" in rack.usd_per_hour_source


def test_residual_lowers_capital_and_pue_raises_power():
    # 4,202 USD * 0.9 / 35,040 h = 0.107928; 0.14 kW * 1.5 * 0.30 = 0.063
    assert cost(residual_fraction=0.1, pue=1.5).usd_per_hour(20) == pytest.approx(0.170928, abs=1e-6)


def test_dollars_need_no_rate():
    dollars = cost(capital_eur=None, usd_per_eur=None, capital_usd={"value": 35040, "source": "order"})
    assert dollars.usd_per_hour(0) == pytest.approx(35040 / 35040)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capital_usd": {"value": 1, "source": "order"}}, "the capital is not given once"),
        ({"capital_eur": None}, "the capital is not given once"),
        ({"usd_per_eur": None}, "capital_eur has no exchange rate"),
        ({"watts_per_node": {"value": -7, "source": "measured"}}, "-7 is negative"),
        ({"watts_per_node": {"value": 7}}, "source"),
        ({"life_years": 0}, "greater than 0"),
        ({"residual_fraction": 1.0}, "less than 1"),
        ({"pue": 0.9}, "greater than or equal to 1"),
    ],
)
def test_facts_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        cost(**changes)


def test_four_blades_cost_their_share_by_hand(repo_root):
    # capital: 764 EUR * 1.10 / 35,040 h = 0.023984 USD/h; power: 4 * 7 W = 0.028 kW * 0.30 = 0.0084 USD/h
    rack = fleet.load_rack(repo_root / "inventory/blades-poc.yaml")
    assert rack.usd_per_hour == pytest.approx(0.032384, abs=1e-6)
    assert "four twentieths" in rack.usd_per_hour_source


def test_bench_by_hand(repo_root):
    # capital: (80 + 109) USD / 35,040 h = 0.005394 USD/h; power: (12 + 75) W = 0.087 kW * 0.30 = 0.0261 USD/h
    bench = fleet.load_rack(repo_root / "inventory/bench-1.yaml")
    assert bench.usd_per_hour == pytest.approx(0.031494, abs=1e-6)
    assert "watts_per_node: assumption, upper bound" in bench.usd_per_hour_source


def test_shipped_workstation_by_hand(repo_root):
    # capital: 1,899 USD / 35,040 h = 0.054195 USD/h; power: 0.010 kW * 0.30 = 0.003 USD/h
    station = fleet.load("poc", repo_root).workstations[0]
    assert station.usd_per_hour == pytest.approx(0.057195, abs=1e-6)


def test_without_facts_a_rack_is_unpriced_with_a_reason(repo_root):
    bare = fleet.load_rack(repo_root / "inventory/bench-1.yaml").model_copy(update={"cost": None})
    assert bare.usd_per_hour is None
    assert bare.usd_per_hour_source == "inventory/bench-1.yaml has no cost facts"


def test_workstation_without_facts_is_unpriced_and_with_facts_is_not():
    plain = fleet.Workstation(name="m2", machine="MacBook Pro M2 16GB")
    priced = plain.model_copy(update={"cost": cost()})
    assert (plain.usd_per_hour, plain.usd_per_hour_source) == (None, "workstation m2 has no cost facts")
    assert priced.usd_per_hour == pytest.approx(0.119920 + 0.0021, abs=1e-6)


def test_a_cost_is_as_old_as_its_oldest_figure_and_undated_while_one_is():
    dated = {name: {**FACTS[name], "as_of": f"2026-0{month}-01"} for month, name in enumerate(DATED, start=2)}
    assert cost(**dated).as_of == "2026-02-01"
    assert cost(**{**dated, "usd_per_kwh": FACTS["usd_per_kwh"]}).as_of is None

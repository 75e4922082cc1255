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
    figures = {**FACTS, **changes}
    return fleet.HardwareCost.model_validate(
        {name: value for name, value in figures.items() if value is not None}
    )


def test_cost_of_twenty_blades_matches_a_manual_sum():
    # capital: 3,820 EUR * 1.10 / (4 * 8,760 h) = 0.119920 USD/h; power: 20 * 7 W = 0.14 kW * 0.30 = 0.042 USD/h
    assert cost().usd_per_hour(20) == pytest.approx(0.119920 + 0.042, abs=1e-6)


def test_shipped_rack_has_the_same_cost(repo_root):
    rack = fleet.load_rack(repo_root / "inventory/blades-1.yaml")
    assert rack.usd_per_hour == pytest.approx(0.161920, abs=1e-6)
    assert "usd_per_eur: assumption, planning rate" in rack.usd_per_hour_source


def test_residual_value_lowers_capital_cost_and_pue_raises_power_cost():
    # 4,202 USD * 0.9 / 35,040 h = 0.107928; 0.14 kW * 1.5 * 0.30 = 0.063
    assert cost(residual_fraction=0.1, pue=1.5).usd_per_hour(20) == pytest.approx(0.170928, abs=1e-6)


def test_capital_in_dollars_needs_no_exchange_rate():
    dollars = cost(capital_eur=None, usd_per_eur=None, capital_usd={"value": 35040, "source": "order"})
    assert dollars.usd_per_hour(0) == pytest.approx(35040 / 35040)


def test_capital_may_be_a_plain_number_which_is_an_assumption():
    plain = fleet.HardwareCost.model_validate(
        {"capital_usd": 900, "life_years": 4, "watts_per_node": 7, "usd_per_kwh": 0.3}
    )
    assert plain.usd_per_hour(0) == pytest.approx(900 / 35040)
    assert "capital" in plain.assumed_figure_names
    assert plain.figure_sources_text == "a number in the file, without a source"
    assert plain.oldest_figure_date is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"capital_usd": {"value": 1, "source": "order"}},
            "exactly one of capital_usd and capital_eur must be set",
        ),
        ({"capital_eur": None}, "exactly one of capital_usd and capital_eur must be set"),
        ({"usd_per_eur": None}, "capital_eur has no exchange rate"),
        ({"watts_per_node": {"value": -7, "source": "measured"}}, "-7 is negative"),
        ({"watts_per_node": {"value": 7}}, "source"),
        ({"life_years": 0}, "is 0; give more than 0"),
        ({"residual_fraction": 1.0}, "is 1; give less than 1"),
        ({"pue": 0.9}, "is 0.9; give from 1 to 3"),
    ],
)
def test_invalid_cost_facts_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        cost(**changes)


def test_four_blades_cost_their_share(repo_root):
    # capital: 764 EUR * 1.10 / 35,040 h = 0.023984 USD/h; power: 4 * 7 W = 0.028 kW * 0.30 = 0.0084 USD/h
    rack = fleet.load_rack(repo_root / "inventory/blades-poc.yaml")
    assert rack.usd_per_hour == pytest.approx(0.032384, abs=1e-6)
    assert "assumption, planning price of four" in rack.usd_per_hour_source


def test_cost_of_the_bench_matches_a_manual_sum(repo_root):
    # capital: (80 + 109) USD / 35,040 h = 0.005394 USD/h; power: (12 + 75) W = 0.087 kW * 0.30 = 0.0261 USD/h
    bench = fleet.load_rack(repo_root / "inventory/bench-1.yaml")
    assert bench.usd_per_hour == pytest.approx(0.031494, abs=1e-6)
    assert "watts_per_node: assumption, upper bound" in bench.usd_per_hour_source


def test_cost_of_the_shipped_workstation_matches_a_manual_sum(repo_root):
    # capital: 1,899 USD / 35,040 h = 0.054195 USD/h; power: 0.010 kW * 0.30 = 0.003 USD/h
    station = fleet.load_fleet("poc", repo_root).workstations[0]
    assert station.usd_per_hour == pytest.approx(0.057195, abs=1e-6)


def test_rack_without_cost_facts_is_unpriced_with_a_reason(repo_root):
    bare = fleet.load_rack(repo_root / "inventory/bench-1.yaml").model_copy(update={"cost": None})
    assert bare.usd_per_hour is None
    assert bare.usd_per_hour_source == "inventory/bench-1.yaml has no cost facts"


def test_workstation_is_priced_only_with_cost_facts():
    plain = fleet.Workstation(name="m2", machine="MacBook Pro M2 16GB")
    priced = plain.model_copy(update={"cost": cost()})
    assert (plain.usd_per_hour, plain.usd_per_hour_source) == (None, "workstation m2 has no cost facts")
    assert priced.usd_per_hour == pytest.approx(0.119920 + 0.0021, abs=1e-6)


def test_cost_has_the_date_of_its_oldest_figure_and_none_if_any_is_undated():
    dated = {name: {**FACTS[name], "as_of": f"2026-0{month}-01"} for month, name in enumerate(DATED, start=2)}
    assert cost(**dated).oldest_figure_date == "2026-02-01"
    assert cost(**{**dated, "usd_per_kwh": FACTS["usd_per_kwh"]}).oldest_figure_date is None


STAFFED = {
    "rack_units": {"value": 2, "source": "rack plan"},
    "usd_per_unit_month": {"value": 36.5, "source": "offer"},
    "staff_hours_per_month": 2,
    "usd_per_staff_hour": {"value": 73, "source": "payroll"},
    "network_usd_per_month": {"value": 7.3, "source": "invoice"},
    "colocation_usd_per_month": {"value": 14.6, "source": "invoice"},
    "maintenance_usd_per_year": {"value": 876, "source": "contract"},
}


def test_cost_with_all_parts_matches_a_manual_sum():
    # space: 2 U * 36.50 / 730 h = 0.10; staff: 2 h * 73 / 730 = 0.20; network: 7.30 / 730 = 0.01
    # colocation: 14.60 / 730 = 0.02; maintenance: 876 / 12 / 730 = 0.10
    # power: 20 * 7 W * 0.5 / 1000 * 1.5 * 0.30 = 0.0315; capital as above 0.119920
    complete = cost(**STAFFED, pue=1.5, utilisation={"value": 0.5, "source": "measured"})
    parts = complete.parts_usd_per_hour(20)
    figures = {name: round(usd, 6) for name, usd in parts.items()}
    assert figures == {
        "capital": 0.11992, "power": 0.0315, "space": 0.1, "staff": 0.2,
        "network": 0.01, "colocation": 0.02, "maintenance": 0.1,
    }  # fmt: skip
    assert complete.usd_per_hour(20) == pytest.approx(0.58142, abs=1e-6)
    assert complete.missing_cost_parts == ()


def test_undeclared_parts_are_listed_and_not_in_the_cost():
    assert cost().missing_cost_parts == ("space", "staff", "network", "maintenance")
    assert set(cost().parts_usd_per_hour(20)) == {"capital", "power"}


def test_number_without_a_source_is_an_assumption():
    assert cost().assumed_figure_names == ("usd_per_eur", "life_years", "usd_per_kwh")
    sourced = cost(life_years={"value": 4, "source": "accounting rule"})
    assert sourced.assumed_figure_names == ("usd_per_eur", "usd_per_kwh")
    assert "life_years: accounting rule" in sourced.figure_sources_text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rack_units": 1}, "rack_units and usd_per_unit_month must be given together"),
        ({"usd_per_staff_hour": 50}, "staff_hours_per_month and usd_per_staff_hour must be given together"),
        ({"utilisation": 1.2}, "is 1.2; give from 0 to 1"),
        ({"network_usd_per_month": -1}, "-1 is negative"),
    ],
)
def test_incomplete_and_invalid_cost_facts_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        cost(**changes)

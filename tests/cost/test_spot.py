"""Test the cost of spot capacity per useful hour of work."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpufleet import catalog, cost, fleet
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.analysis.reports.json_document import build_estimate_document
from gpufleet.cost.money import ZERO_RANGE, Range
from gpufleet.cost.pricing import spot
from gpufleet.engine import StateResource

HOUR = Decimal(60)


def spot_workload(per_month="0", checkpoint="60", restart="0", dump="0", fallback=ZERO_RANGE):
    numbers = (Decimal(checkpoint), Decimal(restart), Decimal(dump))
    return spot.SpotWorkload(Range.from_exact_value(per_month), *numbers, fallback)


def test_work_without_interruptions_pays_only_for_checkpoints():
    # 60 minutes of work, 3 to write them: 63 / 60
    assert spot.compute_useful_hour_rate(Decimal(1), None, spot_workload(dump="3")).expected == Decimal(
        "1.05"
    )


def test_cost_of_rare_interruptions_matches_a_manual_calculation():
    # 7.3 a month: M = 100 h; C = 1 h, R = 0.5 h: 100 * e^0.005 * (e^0.01 - 1) = 1.010054
    useful_rate = spot.compute_useful_hour_rate(Decimal(1), None, spot_workload("7.3", restart="30")).expected
    assert useful_rate == Decimal("1.010054")
    assert float(useful_rate) == pytest.approx(
        1 + (0.5 + 0.5) / 100, abs=1e-4
    )  # half an interval, one restart


def test_cost_with_an_on_demand_share_matches_a_manual_calculation():
    # 0.8 * 1.010054 * 0.5 + 0.2 * 1 * 2.0 = 0.404022 + 0.4
    share = Range.from_exact_value("0.2")
    useful_rate = spot.compute_useful_hour_rate(
        Decimal("0.5"), Decimal(2), spot_workload("7.3", restart="30", fallback=share)
    )
    assert useful_rate.expected == Decimal("0.804022")


@pytest.mark.parametrize(("mean_hours", "best_minutes"), [(24, 117), (6, 57)])
def test_best_checkpoint_interval_matches_the_formula_of_daly(mean_hours, best_minutes):
    # Daly 2006, figures 3 and 4: R = 10 min, dump 5 min; the predicted optimum in minutes
    per_month = Decimal(730) / mean_hours
    costs = {
        minutes: spot_workload(str(per_month), str(minutes), "10", "5").billed_hours_per_useful_hour(
            per_month
        )
        for minutes in range(5, 300)
    }
    assert abs(min(costs, key=costs.get) - best_minutes) <= 1


def test_formula_agrees_with_a_simulated_job():
    # 730 interruptions a month: M = 1 h; C = 30 min, W = 2 min, R = 6 min
    chance, mean, segment, restart = random.Random(7), 1.0, 32 / 60, 6 / 60
    paid = 0.0
    for _ in range(20_000):
        remaining = chance.expovariate(1 / mean)
        while remaining < segment:  # interrupted: what was done is lost, then restarts until one survives
            paid += remaining
            remaining = chance.expovariate(1 / mean)
            while remaining < restart:
                paid += remaining
                remaining = chance.expovariate(1 / mean)
            paid += restart
            remaining -= restart
        paid += segment
    formula = float(spot_workload("730", "30", "6", "2").billed_hours_per_useful_hour(Decimal(730)))
    assert paid / (20_000 * 0.5) == pytest.approx(formula, rel=0.02)


def test_work_that_never_finishes_has_no_cost():
    assert spot.compute_useful_hour_rate(Decimal(1), None, spot_workload("7300", checkpoint="6000")) is None


def test_required_fallback_without_a_price_has_no_cost():
    assert (
        spot.compute_useful_hour_rate(Decimal(1), None, spot_workload(fallback=Range.from_exact_value("0.1")))
        is None
    )


def test_interruption_bands_are_converted_to_monthly_rates():
    band = spot.band_interruptions_per_month("5-10%")
    assert float(band.low) == pytest.approx(-math.log(0.95))
    assert float(band.high) == pytest.approx(-math.log(0.90))
    assert set(spot.load_interruption_bands()) == {"<5%", "5-10%", "10-15%", "15-20%"}


@given(
    price=st.decimals("0.01", "100", places=4),
    one=st.decimals("0", "60", places=2),
    other=st.decimals("0", "60", places=2),
    restart=st.decimals("0", "60", places=1),
)
def test_more_interruptions_never_cost_less(price, one, other, restart):
    fewer, more = sorted((one, other))
    cheap = spot.compute_useful_hour_rate(price, None, spot_workload(str(fewer), restart=str(restart)))
    dear = spot.compute_useful_hour_rate(price, None, spot_workload(str(more), restart=str(restart)))
    assert price <= cheap.expected <= dear.expected


def book(**usd):
    def look(cloud, region, item, purchase):
        amount = usd.get(purchase)
        return amount and Price(amount, "machine", "2026-07-30", "by hand", "high", region, purchase)

    return PriceBook(look, look)


def test_cheapest_commitment_below_spot_is_found():
    cheaper = spot.find_cheaper_commitment("gcp", "r", "m", book(spot=2.0, reserved_1y=1.8, reserved_3y=1.5))
    assert cheaper.commitment.purchase == "reserved_3y"
    assert cheaper.break_even_hours_per_month == Decimal("547.5")  # 730 * 1.5 / 2
    assert str(cheaper).startswith("WARNING: spot of m in r ($2.00 an hour, 2026-07-30) costs more than a 3y")


@pytest.mark.parametrize("usd", [{"spot": 1.0, "reserved_3y": 1.5}, {"spot": 1.0}, {"reserved_3y": 0.5}])
def test_no_warning_if_spot_is_cheaper_or_a_price_is_missing(usd):
    assert spot.find_cheaper_commitment("gcp", "r", "m", book(**usd)) is None


def test_catalogue_contains_commitments_cheaper_than_spot():
    cheaper = spot.find_cheaper_commitment("gcp", "us-central1", "a2-megagpu-16g")
    assert cheaper is not None
    assert cheaper.spot.usd_per_hour > cheaper.commitment.usd_per_hour
    assert cheaper.commitment == catalog.find_machine_price(
        "gcp", "us-central1", "a2-megagpu-16g", "reserved_3y"
    )


INSTANCE = "aws:ec2/instance:Instance"
WORK = {"interruptions_per_month": 7.3, "checkpoint_minutes": 60, "restart_minutes": 30}


def fleet_with_spot_pool(repo_root, **settings):
    """Return the production fleet with one spot pool on AWS whose work is settings."""
    purchase = {"kind": "spot", **settings}
    pool = {
        "name": "serve", "cloud": "aws", "region": "us-east-1", "machine": "g5.2xlarge", "count": 1,
        "purchase": purchase,
    }  # fmt: skip
    file = repo_root / "stacks/Pulumi.dev.yaml"
    spec = YAML(typ="safe").load(file.read_text())["config"]["gpufleet:fleet"]
    spec |= {"pools": [pool], "racks": [], "workstations": []}
    return fleet.parse_fleet(spec, stack="t", root=repo_root)


def machine():
    inputs = {
        "instanceType": "g5.2xlarge", "region": "us-east-1", "instanceMarketOptions": {"marketType": "spot"},
        "tags": {"gpufleet-pool": "serve", "gpufleet-purchase": "spot"},
    }  # fmt: skip
    return StateResource(f"urn:pulumi:t::p::{INSTANCE}::serve-0", INSTANCE, "serve-0", inputs, {})


def test_estimate_notes_the_cost_of_a_useful_hour(repo_root):
    prices = book(spot=0.5, on_demand=1.2)
    estimate = cost.estimate([machine()], fleet_with_spot_pool(repo_root, work=WORK), book=prices)
    charge = next(charge for charge in estimate.bill.charges if charge.component == "machine")
    assert charge.usd_per_useful_hour.expected == Decimal("0.505027")  # 0.5 * 1.010054
    assert (
        "serve: spot at $0.50 an hour costs $0.505027 per useful hour, including lost work and restarts"
        in estimate.notes
    )
    line = next(
        row for row in build_estimate_document(estimate)["resources"] if row["component"] == "machine"
    )
    assert line["expected_usd_per_useful_hour"] == {"low": 0.505027, "expected": 0.505027, "high": 0.505027}


def test_unknown_fallback_share_widens_the_range(repo_root):
    fleet_with_fallback = fleet_with_spot_pool(repo_root, work=WORK, fallback="on_demand")
    estimate = cost.estimate([machine()], fleet_with_fallback, book=book(spot=0.5, on_demand=1.2))
    charge = next(charge for charge in estimate.bill.charges if charge.component == "machine")
    assert charge.usd_per_useful_hour == Range(Decimal("0.505027"), Decimal("0.505027"), Decimal("1.2"))


def test_undeclared_workload_has_a_note_and_no_cost(repo_root):
    estimate = cost.estimate([machine()], fleet_with_spot_pool(repo_root), book=book(spot=0.5, on_demand=1.2))
    assert any("add purchase.work" in note for note in estimate.notes)
    assert all(charge.usd_per_useful_hour is None for charge in estimate.bill.charges)


def test_diff_and_estimate_warn_if_a_commitment_is_cheaper_than_spot():
    prices = book(spot=0.5, on_demand=1.2, reserved_3y=0.4)
    change = cost.diff([], [machine()], book=prices)
    assert [line for line in change.warnings if line.startswith("WARNING: spot of g5.2xlarge in us-east-1")]
    assert [line for line in cost.estimate([machine()], book=prices).notes if line.startswith("WARNING")]


@pytest.mark.parametrize(
    ("work_settings", "message"),
    [
        ({**WORK, "band": "<5%"}, "exactly one of interruptions_per_month and band must be set"),
        (
            {"checkpoint_minutes": 60, "restart_minutes": 1},
            "exactly one of interruptions_per_month and band must be set",
        ),
        ({**WORK, "checkpoint_minutes": 0}, "more than 0"),
        ({**WORK, "fallback_share": 1.5}, "at most 1"),
    ],
)
def test_invalid_workload_is_refused(repo_root, work_settings, message):
    with pytest.raises(ValueError, match=message):
        fleet_with_spot_pool(repo_root, work=work_settings)


def test_workload_without_checkpoint_cost_keeps_its_fields():
    assert (
        replace(spot_workload(), checkpoint_cost_minutes=HOUR).uninterrupted_billed_hours_per_useful_hour == 2
    )


def test_usage_file_declares_the_workload_of_other_programs(tmp_path):
    file = tmp_path / "usage.yaml"
    file.write_text(
        "resources:\n  serve-*: {interruptions_per_month: 7.3, checkpoint_minutes: 60, restart_minutes: 30}\n"
    )
    estimate = cost.estimate(
        [machine()], book=book(spot=0.5, on_demand=1.2), usage=cost.load_usage_file(file)
    )
    charge = next(charge for charge in estimate.bill.charges if charge.component == "machine")
    assert charge.usd_per_useful_hour.expected == Decimal("0.505027")
    assert any(note.startswith("serve: spot at $0.50 an hour costs $0.505027") for note in estimate.notes)


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        (
            "{interruptions_per_month: 3}",
            "serve: not all fields of interruptions are given; add checkpoint_minutes",
        ),
        ("{fallback_share: 0.2}", "not all fields of interruptions are given; add interruptions_per_month"),
        ("{fallback_share: 2}", "2 is not a share of 0 to 1"),
        ("{checkpoint_minutes: 0}", "0 is not more than 0 minutes"),
    ],
)
def test_incomplete_usage_is_refused(tmp_path, usage, message):
    file = tmp_path / "usage.yaml"
    file.write_text(f"resources:\n  serve: {usage}\n")
    with pytest.raises(ValueError, match=message):
        cost.load_usage_file(file)


def test_useful_hour_of_a_machine_with_attached_cards_includes_the_cards(repo_root):
    """Google's N1: machine 0.5 and two cards of 0.5 an hour; 1.5 * 1.0100544..."""
    kind = "gcp:compute/instance:Instance"
    inputs = {
        "machineType": "n1-standard-8", "zone": "us-central1-a", "labels": {"gpufleet-pool": "serve"},
        "guestAccelerators": [{"type": "nvidia-tesla-t4", "count": 2}],
        "scheduling": {"provisioningModel": "SPOT"},
    }  # fmt: skip
    resource = StateResource(f"urn:pulumi:t::p::{kind}::serve-0", kind, "serve-0", inputs, {})
    estimate = cost.estimate(
        [resource], fleet_with_spot_pool(repo_root, work=WORK), book=book(spot=0.5, on_demand=1.2)
    )
    charge = next(charge for charge in estimate.bill.charges if charge.component == "machine")
    assert charge.usd_per_useful_hour.expected == Decimal("1.515082")
    assert any(note.startswith("serve: spot at $1.50 an hour costs $1.515082") for note in estimate.notes)

"""Test short forms of the spec and their values."""

from __future__ import annotations

from gpufleet import fleet


def test_integer_count_is_fixed(parse_pool):
    count = parse_pool(count=3).pools[0].count
    assert (count.min, count.desired, count.max, count.is_elastic) == (3, 3, 3, False)


def test_range_starts_at_its_minimum(parse_pool):
    count = parse_pool(count={"min": 1, "max": 4}).pools[0].count
    assert (count.min, count.desired, count.max, count.is_elastic) == (1, 1, 4, True)


def test_range_may_name_its_start(parse_pool):
    assert parse_pool(count={"min": 0, "desired": 2, "max": 4}).pools[0].count.desired == 2


def test_single_number_is_the_maximum_budget(spec, tmp_path):
    budget = fleet.parse_fleet(spec | {"budget_usd_per_month": 60000}, root=tmp_path).budget_usd_per_month
    assert (budget.min, budget.max) == (0, 60000)


def test_accelerator_name_is_replaced_with_the_catalogue_name():
    assert fleet.AcceleratorRequest(model="rx-460").model == "Radeon RX 460"


def test_nodes_without_a_template_get_the_default_one(parse_pool):
    declared = parse_pool()
    assert declared.get_template(None) == fleet.NodeTemplate()
    assert declared.get_template("trainer").burn_in == "standard"


def test_pool_is_found_by_name(parse_pool):
    declared = parse_pool()
    assert declared.find_pool("train").machine == "p4d.24xlarge"
    assert declared.find_pool("nobody") is None

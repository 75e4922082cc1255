"""Test the shipped stacks: their declarations and their cost."""

from __future__ import annotations

import pytest

from gpufleet import catalog, fleet


@pytest.fixture(scope="module")
def load_stack(repo_root):
    return lambda name: fleet.load_fleet(name, repo_root)


def monthly_cost(pool):
    """Return what a pool costs a month at desired size."""
    return fleet.pool_node_usd_per_hour(pool) * (pool.hours_per_month or 730) * pool.count.desired


def test_poc_has_no_cloud(load_stack):
    poc = load_stack("poc")
    assert poc.pools == ()
    assert [station.machine for station in poc.workstations] == ["MacBook Pro M2 16GB"]
    assert [(use.name, len(use.rack.nodes), use.template) for use in poc.racks] == [
        ("blades-poc", 4, "ci-runner")
    ]


def test_dev_is_one_small_node_on_each_cloud(load_stack):
    pools = load_stack("dev").pools
    assert [(pool.cloud, pool.machine, pool.count.desired) for pool in pools] == [
        ("aws", "g5.2xlarge", 1),
        ("gcp", "n1-standard-8", 1),
        ("azure", "Standard_NC4as_T4_v3", 1),
    ]
    assert (pools[0].purchase.kind, pools[0].purchase.fallback) == ("spot", "on_demand")
    assert (pools[1].accelerators.model, pools[1].accelerators.count) == ("T4", 1)


def test_dev_stays_within_its_budget_even_if_all_spot_nodes_fall_back(load_stack):
    dev = load_stack("dev")
    usual = sum(monthly_cost(pool) for pool in dev.pools)
    worst = usual - monthly_cost(dev.pools[0]) + 160 * 1.212  # g5.2xlarge on demand
    assert usual == pytest.approx(160 * (0.43632 + 0.379998 + 0.35 + 0.526), abs=0.01)
    assert dev.budget_usd_per_month.min <= usual <= worst <= dev.budget_usd_per_month.max


def test_production_cost_matches_a_manual_sum(load_stack):
    costs = {pool.name: round(monthly_cost(pool)) for pool in load_stack("production").pools}
    assert costs == {"train": 16029, "serve": 21357, "tune": 15310}


def test_production_has_its_expected_purchases(load_stack):
    production = load_stack("production")
    assert {pool.name: (pool.purchase.kind, pool.purchase.term) for pool in production.pools} == {
        "train": ("reserved", None),
        "serve": ("spot", None),
        "tune": ("committed", "1y"),
    }
    assert (production.budget_usd_per_month.min, production.budget_usd_per_month.max) == (0, 60000)


def test_production_has_32_cards(load_stack):
    cards = {
        pool.name: [(c.model, c.count) for c in catalog.get_machine(pool.machine).accelerators]
        for pool in load_stack("production").pools
    }
    assert cards == {
        "train": [("A100 SXM4 40GB", 8)],
        "serve": [("A100 SXM4 40GB", 16)],
        "tune": [("A100 SXM4 80GB", 8)],
    }


def test_twenty_blades_are_80_cores_160_gb_and_10_tb(load_stack):
    blades = load_stack("production").racks[0].rack.nodes
    machines = [catalog.get_machine(node.machine) for node in blades]
    assert [node.name for node in blades] == [f"blade{slot:02}" for slot in range(1, 21)]
    assert sum(machine.vcpus for machine in machines) == 80
    assert sum(machine.memory_gib for machine in machines) == 160
    assert sum(node.storage_gb for node in blades) == 10_000


def test_bench_is_a_pi_with_a_graphics_card(load_stack):
    bench = load_stack("production").racks[1].rack
    assert bench.kind == "bench"
    assert [(node.machine, node.accelerators[0].model) for node in bench.nodes] == [
        ("Raspberry Pi 5 8GB", "Radeon RX 460")
    ]


def test_host_names_are_unique_over_all_rack_files(repo_root):
    files = [path for path in (repo_root / "inventory").glob("*.yaml") if "fleet.rack" in path.read_text()]
    names = [node.name for path in files for node in fleet.load_rack(path).nodes]
    assert len(names) == len(set(names)) == 25


@pytest.mark.parametrize("name", ["poc", "dev", "production"])
def test_every_template_is_used(load_stack, name):
    declared = load_stack(name)
    used = {item.template for item in (*declared.pools, *declared.racks, *declared.workstations)}
    assert used - {None} == set(declared.templates)


def test_fleet_is_frozen(load_stack):
    with pytest.raises(ValueError, match="frozen"):
        load_stack("dev").owner = "somebody"


PARTS = {  # USD a month: 730 hours, or the hours of the machine where the part goes with it
    "production": [
        100 * 0.08,  # train: gp3 root disk
        730 * 0.045,  # train: the NAT gateway of its private subnet
        100 * 0.10,  # serve: balanced disk
        8 * 375 * 0.08,  # serve: local disks for its volume
        19.71,  # tune: Premium SSD P10
        730
        * (0.005 + 0.005 + 0.0025),  # the gateway's address, tune's and serve's; a spot machine's costs half
        730 * (0.161920 + 0.031494),  # blades-1 and bench-1
    ],
    "dev": [
        100 * 0.08 * 160 / 730,  # train: an elastic group keeps no disk without a machine
        (100 + 200) * 0.10,  # serve: balanced disk, and one for its volume
        19.71,  # test: Premium SSD P10
        160 * 0.005 * 2 + 3.65,  # train and serve while they run; test's is static
        0.10,  # train: the alarm that starts on-demand machines when spot ones are missing
    ],
    "poc": [730 * (0.057195 + 0.032384)],  # workstation and four blades
}
TOTALS = {"production": 53156.77, "dev": 327.58, "poc": 65.39}


@pytest.mark.parametrize("name", ["poc", "dev", "production"])
def test_monthly_cost_matches_a_manual_sum_and_the_budget(load_stack, name):
    declared = load_stack(name)
    total = sum(monthly_cost(pool) for pool in declared.pools) + sum(PARTS[name])
    assert total == pytest.approx(TOTALS[name], abs=0.01)
    budget = declared.budget_usd_per_month
    assert budget is None or budget.min <= total <= budget.max

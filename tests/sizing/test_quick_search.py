"""What makes the search quick leaves its answers as they are: pruned kinds, shared estimates, compared price lists."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.boundary import read_packaged_columns, read_packaged_rows
from gpufleet.catalog.cheapest_offer import find_cheapest_offers
from gpufleet.catalog.prices import PriceStore
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.sizing.memory.constants import override_memory_constants
from gpufleet.sizing.memory.training import estimate_training_memory
from gpufleet.sizing.plans import search
from gpufleet.sizing.plans.available_hardware import BareAccelerators
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans

QUESTIONS = {
    "one stream": {"model": "llama-3.1-8b"},
    "many": {"model": "llama-3.1-70b", "requests_per_s": 20.0, "context": "800/200", "tpot_ms": 200.0},
    "work": {"model": "qwen2.5-7b", "task": "lora", "dataset": 10000, "epochs": 3.0},
    "deadline": {"model": "llama-3.1-70b", "task": "pretrain", "tokens": "1T", "deadline": "60d"},
    "more than have a price": {"model": "qwen2.5-7b", "top": 150},
    "all": {"model": "llama-3.2-3b", "top": 0},
    "by speed": {"model": "llama-3.1-8b", "rank": "speed", "top": 10},
    "budget": {"model": "llama-3.1-8b", "budget": 3000.0},
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_plans_are_those_of_a_search_without_pruning(question, tmp_path, monkeypatch):
    request = parse_plan_options(PlanOptions(**QUESTIONS[question]), root=tmp_path)
    quick = find_plans(request)
    monkeypatch.setattr(search, "_has_enough_plans", lambda *_: False)
    complete = find_plans(request)
    assert quick.plans == complete.plans
    assert quick.warnings == complete.warnings
    assert quick.considered_count == complete.considered_count


def test_accelerators_without_a_price_are_left_out_where_enough_have_one(tmp_path, monkeypatch):
    asked = []
    hardware = BareAccelerators._hardware.func
    monkeypatch.setattr(
        BareAccelerators, "_hardware", property(lambda self: asked.append(1) or hardware(self))
    )
    find_plans(parse_plan_options(PlanOptions("qwen2.5-7b", task="lora", dataset=1000), root=tmp_path))
    assert not asked
    find_plans(parse_plan_options(PlanOptions("qwen2.5-7b", rank="power"), root=tmp_path))
    assert asked


def test_a_shared_memory_estimate_is_the_one_of_each_layout(answer_size):
    plans = answer_size("llama-3.1-8b", task="full_finetune", tokens="1B", top=10).plans
    for plan in plans:
        share = estimate_training_memory(plan.workload, plan.layout)
        assert share.total_bytes / 2**30 == pytest.approx(plan.memory.per_device_gib)


def test_a_shared_memory_estimate_follows_overridden_constants(answer_size):
    options = {"on": "H100 SXM5 80GB", "devices": 1, "task": "lora"}
    before = answer_size("llama-3.1-8b", **options).plans[0].memory.per_device_gib
    with override_memory_constants(workspace_gib=5.0):
        assert answer_size("llama-3.1-8b", **options).plans[0].memory.per_device_gib > before + 4
    assert answer_size("llama-3.1-8b", **options).plans[0].memory.per_device_gib == before


@pytest.fixture
def cheapest():
    """Return the cheapest offer by cloud, machine and purchase, of machines with cards."""

    def find():
        offers = find_cheapest_offers(
            lambda machine: (machine.cloud, machine.name) if machine.accelerators else None,
            lambda cloud, region, purchase: cloud != "azure" and purchase != "spot",
        )
        return [(offer.machine.name, offer.region, offer.purchase, offer.price) for offer in offers]

    return find


def test_cheapest_offers_are_those_of_the_complete_search(cheapest):
    best = {}
    for offer in catalog.search_offers():
        machine = offer.machine
        if machine.accelerators and machine.cloud != "azure" and offer.purchase != "spot":
            best.setdefault((machine.cloud, machine.name, offer.purchase), offer)
    assert cheapest() == [
        (offer.machine.name, offer.region, offer.purchase, offer.price) for offer in best.values()
    ]


def test_old_prices_do_not_hide_newer_ones():
    offers = find_cheapest_offers(
        lambda machine: machine.name, lambda *_: True, lambda as_of: (as_of or "") < "2026"
    )
    dates = {}
    for offer in offers:
        if offer.machine.name == "p5.48xlarge" and offer.purchase == "on_demand":
            dates.setdefault((offer.price.as_of or "") < "2026", []).append(offer)
    every = [
        offer.price.as_of for offer in catalog.search_offers(machine="p5.48xlarge", purchase="on_demand")
    ]
    assert {old: len(offers) for old, offers in dates.items()} == {(day or "") < "2026": 1 for day in every}


def test_cheapest_offers_come_from_a_price_store_too(cheapest, tmp_path, monkeypatch):
    path = tmp_path / "prices.sqlite"
    day = "2026-11-28"
    with PriceStore(path) as store:
        run = store.begin_or_resume_run("test", key=day)
        run = store.stage_batch(
            "all", [PriceRow("aws", "us-east-1", "p4d.24xlarge", "on_demand", 20.0, day, "a test")], run
        )
        store.commit_run(run)
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    assert next(
        price.usd_per_hour
        for name, _, purchase, price in cheapest()
        if (name, purchase) == ("p4d.24xlarge", "on_demand")
    ) == pytest.approx(20.0)


def test_columns_of_a_data_file_are_those_of_its_rows():
    rows = read_packaged_rows("gpufleet.catalog", "data/machine_facts.csv")
    columns = ("machine", "value", "source")
    assert list(read_packaged_columns("gpufleet.catalog", "data/machine_facts.csv", columns)) == [
        tuple(row[column] for column in columns) for row in rows
    ]
    assert rows[0].where == "gpufleet/catalog/data/machine_facts.csv:2"

"""Small computers over a network: engines split each layer where they can, as exo and GB10 pairs were measured."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest

from gpufleet import catalog
from gpufleet.sizing.hardware import ParallelLayout
from gpufleet.sizing.node_hardware import build_accelerator_hardware
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.speed import estimate_speed

CASES = Path(__file__).parents[1] / "cases/sizing/clusters.csv"
ROWS = list(csv.DictReader(CASES.read_text().splitlines()))


def _predict(row, nodes=None):
    options = PlanOptions(
        row["model"],
        on=row["accelerator"],
        engine=row["engine"],
        precision=row["precision"],
        context=row["context"],
    )
    nodes = nodes or int(row["nodes"])
    return estimate_speed(
        parse_plan_options(options).workload,
        ParallelLayout(nodes, nodes, tensor=nodes, split="tensor" if nodes > 1 else "none"),
        build_accelerator_hardware(catalog.get_accelerator(row["accelerator"])),
    )


def test_macs_over_thunderbolt_are_as_fast_as_measured():
    errors = [abs(_predict(row).tokens_per_s / float(row["tokens_per_s"]) - 1) for row in ROWS]
    assert len(errors) == 6
    assert median(errors) < 0.2
    assert max(errors) < 0.4


def test_more_macs_are_faster_but_never_in_proportion():
    row = next(row for row in ROWS if row["model"] == "GLM-5")
    one, two, four = (_predict(row, nodes).tokens_per_s for nodes in (1, 2, 4))
    assert one < two < four < 4 * one
    assert any("all-reduces over Thunderbolt 5" in note for note in _predict(row, 4).notes)
    assert not any("all-reduces over Thunderbolt 5" in note for note in _predict(row, 1).notes)


@pytest.mark.parametrize(
    ("name", "precision", "engine", "split"),
    [
        ("M3 Ultra (80)", "int8", "exo", "tensor"),
        ("M3 Ultra (80)", "q8_0", "llama.cpp", "layer"),  # GGUF: llama.cpp splits by layers only
        ("M2 Ultra (76)", "int8", "llama.cpp", "layer"),  # Thunderbolt 4: no RDMA
        ("GB10 (DGX Spark)", "int4", "vllm", "tensor"),
    ],
)
def test_layers_are_split_only_where_the_engine_can_do_no_other(name, precision, engine, split, answer_size):
    (plan,) = answer_size("deepseek-r1", on=name, devices=8, precision=precision).plans
    assert (plan.engine.name, plan.layout.split) == (engine, split)


def test_heads_limit_the_nodes_of_a_tensor_parallel_cluster(answer_size, codes):
    answer = answer_size("qwen3-235b-a22b", on="GB10", devices=3, precision="fp8")
    assert "heads-divide" in codes(answer)
    assert answer.plans[0].layout.tensor == 1

"""The comparison with aiconfigurator: what it is asked, and the table."""

from __future__ import annotations

import sys
from math import log

import pytest

from tools.peer_comparison.__main__ import ComparedRow, _collect_answers, format_comparison
from tools.peer_comparison.question import build_question
from tools.speed_calibration.measurement import load_speed_measurements


@pytest.fixture(scope="module")
def rows():
    return {row.measurement_id: row for row in load_speed_measurements()}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("J010", {"backend_name": "sglang", "tp_size": 8, "moe_tp_size": 8, "moe_ep_size": 1, "isl": 496}),
        ("J042", {"backend_name": "vllm", "tp_size": 8, "moe_tp_size": 1, "moe_ep_size": 8, "osl": 864}),
        ("J158", {"backend_name": "trtllm", "tp_size": 1, "attention_dp_size": 4, "moe_ep_size": 4, "moe_tp_size": 1}),
        ("J023", {"tp_size": 8, "pp_size": 2, "gemm_quant_mode": "fp8_block"}),
        ("J158", {"kvcache_quant_mode": "fp8", "moe_quant_mode": "nvfp4"}),
    ],
)  # fmt: skip
def test_layout_and_format_of_a_row_are_collect_answersed(rows, row, expected):
    question = build_question(rows[row])
    assert expected.items() <= question["options"].items()


def test_dense_model_has_no_options_of_experts(rows):
    question = build_question(rows["J093"])
    assert question["batch"] == 64
    assert not any(name.startswith("moe") for name in question["options"])


@pytest.mark.parametrize("row", ["J189", "J217", "J192", "J320"])
def test_what_the_package_does_not_estimate_is_not_collect_answersed(rows, row):
    """Disaggregated decode over many nodes, llama.cpp, AMD, training."""
    assert build_question(rows[row]) is None


def test_interpreter_without_the_package_answers_nothing(rows, capfd):
    question = build_question(rows["J093"])
    assert _collect_answers(sys.executable, [question]) == {"J093": 0.0}
    assert "J093: {'error': \"ModuleNotFoundError" in capfd.readouterr().err


def test_table_counts_who_is_closer_in_each_class(rows):
    compared = [
        ComparedRow(rows["J010"], log(1.1), log(0.5)),
        ComparedRow(rows["J011"], log(0.7), log(1.2)),
        ComparedRow(rows["J093"], log(1.0), log(2.0)),
    ]
    lines = format_comparison(compared, 9).splitlines()
    assert lines[0] == "9 rows asked, 3 answered by both"
    assert lines[4] == "| all | 3 | 67% | 10%, 26% | 50%, 90% |"
    assert "| nvidia servers, many streams, dense | 1 | 100% | 0%, 0% | 100%, 100% |" in lines

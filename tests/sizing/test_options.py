"""Options as typed: lengths, amounts, deadlines; errors with a remedy."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.boundary import read_packaged_rows
from gpufleet.errors import GpufleetError, InputError
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.plans.options import (
    PlanOptions,
    parse_context_tokens,
    parse_plan_options,
    parse_token_count,
)


@pytest.mark.parametrize(
    ("text", "trains", "expected"),
    [
        ("8192", False, (4096, 4096, True)),
        ("1", False, (0, 1, True)),
        ("1000/500", False, (1000, 500, False)),
        ("512/0", False, (512, 0, False)),
        ("0/128", False, (0, 128, False)),
        ("128k", False, (65536, 65536, True)),
        ("4096", True, (4096, 0, False)),
        ("", True, (2048, 0, False)),
        ("", False, (1024, 256, False)),
    ],
)
def test_context_length_is_parsed(text, trains, expected):
    assert parse_context_tokens(text, trains=trains) == expected


@pytest.mark.parametrize(
    ("text", "tokens"), [("2e9", 2e9), ("15T", 15e12), ("300M", 3e8), ("1_000", 1000), ("1.5b", 1.5e9)]
)
def test_token_count_is_parsed(text, tokens):
    assert parse_token_count(text, "--tokens") == tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "llama-9"}, "--model: unknown model"),
        ({"model": "llama-3.1"}, "--model: model 'llama-3.1' is ambiguous"),
        ({"model": ""}, "--model"),
        (
            {"model": "bge-m3", "context": "512/10"},
            "--context: bge-m3 is an encoder: it generates no tokens; give the tokens of a document: 512/0, or 512",
        ),
        ({"model": "/no/such/config.json"}, "no such file"),
        ({"precision": "bf17"}, "--precision: unknown precision"),
        ({"states": "bf16"}, "--states: is for training"),
        ({"task": "lora", "states": "fp8"}, "--states: 'fp8' is not a known value"),
        ({"task": "lora", "experts": "sparse"}, "--experts: 'sparse' is not a known value"),
        ({"kv_precision": "tiny"}, "--kv-precision: unknown precision"),
        ({"task": "inferenec"}, "--task: 'inferenec' is not a known value; did you mean inference?"),
        ({"task": "classify"}, "--task: 'classify' is not a task of its own; leave it out: an encoder reads"),
        ({"engine": "vlllm"}, "--engine: unknown engine 'vlllm'; did you mean vllm"),
        ({"context": "-5"}, "--context: '-5' is not a length"),
        ({"context": "0"}, "--context: 0 is not a length"),
        ({"context": "0/0"}, "--context: 0/0 has no tokens"),
        ({"context": "1/2/3"}, "--context: '1/2/3' has more than two parts"),
        ({"context": "1e9"}, "--context: '1e9' is not a length"),
        ({"context": "99999999999"}, "--context: '99999999999' is longer than any sequence"),
        ({"context": "٣"}, "--context: '٣' is not a length"),
        ({"batch": "0"}, "--batch: 0 is too few"),
        ({"batch": "-1"}, "--batch: '-1' is not a batch"),
        ({"batch": "many"}, "--batch: 'many' is not a batch"),
        ({"batch": "99999999999"}, "--batch: 99999999999 is too many"),
        ({"batch": "max", "task": "lora"}, "--batch: 'max' is only valid for inference"),
        ({"devices": 0, "on": "T4"}, "--devices: 0 is too few"),
        ({"devices": -8, "on": "T4"}, "--devices: -8 is too few"),
        ({"devices": 10**9, "on": "T4"}, "--devices: 1000000000 is too many"),
        ({"devices": 8}, "--devices: needs --on"),
        ({"tokens": "lots"}, "--tokens: 'lots' is not a number of tokens"),
        ({"tokens": "0"}, "--tokens: '0' is not a number of tokens"),
        ({"tokens": "1e30"}, "--tokens: '1e30' is too many tokens"),
        ({"tokens": "nan"}, "--tokens: 'nan' is not a number"),
        ({"requests_per_s": -1.0}, "--requests-per-s: -1 is not above 0"),
        ({"requests_per_s": float("nan")}, "--requests-per-s: nan is not above 0"),
        ({"requests_per_s": 1.0, "tokens": "1B"}, "--requests-per-s: cannot be combined with --tokens"),
        ({"requests_per_s": 1.0, "context": "100/0"}, "--context: requests must have output tokens"),
        ({"requests_per_s": 1.0, "task": "lora"}, "--requests-per-s: is for inference"),
        ({"optimizer": "adamw"}, "--optimizer: is for training"),
        (
            {"optimizer": "adam", "task": "lora"},
            "--optimizer: 'adam' is not a known value; did you mean adamw?",
        ),
        ({"adapter": "lora", "task": "lora"}, "--adapter: can only be combined with --task dpo"),
        ({"lora_rank": 0, "task": "lora"}, "--lora-rank: 0 is too few"),
        ({"precision": "q4_k_m", "task": "full_finetune"}, "full training in q4_k_m is not supported"),
        ({"deadline": "7d"}, "--deadline: needs an amount of work"),
        ({"deadline": "soon", "tokens": "1B"}, "--deadline: 'soon' is not a deadline"),
        ({"deadline": "2001-01-01", "tokens": "1B"}, "--deadline: '2001-01-01' is in the past"),
        ({"deadline": "0h", "tokens": "1B"}, "--deadline: '0h' is in the past"),
        ({"epochs": 2.0, "task": "lora"}, "--epochs: needs --dataset"),
        ({"dataset": 10, "tokens": "1B", "task": "lora"}, "--dataset: give one of --tokens and --dataset"),
        ({"budget": 0.0}, "--budget: 0 is not above 0"),
        ({"regions": ("us-eats-1",)}, "--region: unknown region 'us-eats-1'; did you mean us-east-1"),
        ({"clouds": ("asw",)}, "--cloud: 'asw' is not a known value; did you mean aws?"),
        ({"purchases": ("spott",)}, "--purchase: 'spott' is not a known value; did you mean spot?"),
        ({"tokens_per_user": 20.0}, "--tokens-per-user: needs --users"),
        ({"users": 0}, "--users: 0 is too few"),
        ({"users": 4, "batch": "8"}, "--users: cannot be combined with --batch"),
        ({"users": 4, "requests_per_s": 2.0}, "--users: cannot be combined with --requests-per-s"),
        ({"users": 4, "tokens": "1B"}, "--users: cannot be combined with --tokens"),
        (
            {"users": 4, "tokens_per_user": 20.0, "tpot_ms": 50.0},
            "--tokens-per-user: cannot be combined with --tpot-ms",
        ),
        ({"users": 4, "task": "lora"}, "--users: is for inference"),
        ({"users": 4, "model": "bge-m3"}, "--users: bge-m3 has no answers for users: it is an encoder"),
        ({"usd_per_kwh": -0.1}, "--usd-per-kwh: -0.1 is not above 0"),
        ({"rank": "costs"}, "--rank: 'costs' is not a known value; did you mean cost?"),
        ({"top": -1}, "--top: -1 is negative"),
    ],
)
def test_invalid_option_is_refused_in_one_line_with_a_remedy(options, message):
    with pytest.raises(InputError, match=re.escape(message)) as excinfo:
        parse_plan_options(PlanOptions(**{"model": "llama-3.1-8b", **options}))
    assert "\n" not in str(excinfo.value)


def test_context_beyond_the_model_limit_is_a_warning(answer_size, codes):
    assert "context-beyond-model" in codes(answer_size("llama-2-7b", on="T4", devices=1, context="8192"))


@given(st.builds(
    PlanOptions, st.sampled_from(["llama-3.1-8b", "x", "", "qwen"]), task=st.text(max_size=12),
    precision=st.text(max_size=8),
    context=st.text(alphabet="0123456789/k -", max_size=12), batch=st.text(alphabet="0123456789max-", max_size=6),
    tokens=st.text(alphabet="0123456789eETBM.+-", max_size=8),
    deadline=st.text(alphabet="0123456789hdw-T:", max_size=12), on=st.text(max_size=10),
    engine=st.text(max_size=8), rank=st.text(max_size=6),
))  # fmt: skip
@settings(max_examples=300)
def test_any_input_is_parsed_or_refused(options):
    try:
        request = parse_plan_options(options, now=datetime(2026, 11, 21, tzinfo=UTC))
    except GpufleetError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right, a traceback is not
    else:
        assert request.workload.batch >= 1


def _measured():
    rows = read_packaged_rows("tools.speed_calibration", "measured.csv")
    return [
        row
        for row in rows
        if row["task"] in ("inference", "full_finetune", "lora", "qlora", "dpo", "pretrain")
    ]


@pytest.mark.parametrize(
    "key", sorted({(r["task"], r["model"], r["precision"], r["engine"]) for r in _measured()})
)
def test_every_measured_precision_can_be_parsed(key):
    task, model, precision, engine = key
    request = parse_plan_options(PlanOptions(model, task=task, precision=precision, engine=engine))
    assert request.workload.task == task


@pytest.mark.parametrize("name", sorted({row["accelerator"] for row in _measured()}))
def test_every_measured_accelerator_resolves(name):
    assert resolve_hardware(name).hardware.accelerator.name


@pytest.mark.parametrize("context", sorted({(r["input_tokens"], r["output_tokens"]) for r in _measured()}))
def test_every_measured_length_can_be_parsed(context):
    prompt, answer = (text or "0" for text in context)
    if int(prompt) + int(answer) > 0:
        assert parse_context_tokens(f"{prompt}/{answer}", trains=False)[:2] == (int(prompt), int(answer))


def test_missing_key_of_a_config_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 4096}')
    with pytest.raises(InputError) as error:
        parse_plan_options(PlanOptions(model=str(tmp_path), on=("L4",)))
    assert str(error.value).endswith(
        "config.json: num_hidden_layers: is missing; the model's size is computed from it"
    )


@pytest.mark.parametrize(
    ("options", "has_copy"),
    [
        ({}, True),
        ({"states": "bf16"}, False),
        ({"optimizer": "adamw_8bit"}, False),
        ({"optimizer": "paged_adamw_8bit"}, False),  # one recipe for both
        ({"optimizer": "paged_adamw_8bit", "states": "mixed"}, True),
        ({"engine": "torchtune"}, False),
        ({"engine": "torchtune", "states": "mixed"}, True),
    ],
)
def test_states_decide_whether_there_is_a_copy_in_32_bits(options, has_copy):
    request = parse_plan_options(PlanOptions("llama-3.1-8b", "full_finetune", **options))
    assert request.workload.training.master_copy is has_copy


@pytest.mark.parametrize("kind", ["fused", "linear"])
def test_experts_are_fused_or_linear(kind):
    request = parse_plan_options(PlanOptions("mixtral-8x7b", "qlora", experts=kind))
    assert request.workload.training.experts == kind


@pytest.mark.parametrize(
    ("model", "task", "precision"),
    [
        ("gpt-oss-120b", "inference", "mxfp4"),
        ("deepseek-r1", "inference", "fp8"),
        ("kimi-k2", "inference", "int4-g32"),
        ("gpt-oss-120b", "qlora", "nf4"),
        ("deepseek-r1", "full_finetune", "bf16"),
    ],
)
def test_published_format_is_the_default_of_inference(model, task, precision):
    assert parse_plan_options(PlanOptions(model, task)).workload.precision == precision


@pytest.mark.parametrize(
    ("context", "task", "tokens"),
    [
        ("", "inference", 512),
        ("512", "inference", 512),
        ("300/0", "inference", 300),
        ("256", "full_finetune", 256),
    ],
)
def test_encoder_reads_documents_and_generates_nothing(context, task, tokens):
    workload = parse_plan_options(PlanOptions(model="BERT-large", context=context, task=task)).workload
    assert (workload.input_tokens, workload.output_tokens) == (tokens, 0)

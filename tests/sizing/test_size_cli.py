"""The command ``gpufleet size`` and its JSON output."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest

from gpufleet.sizing.plans.document import build_sizing_document, load_sizing_schema

CONTRACT = {
    "hardware", "nodes", "devices", "replicas", "parallelism", "per_device_memory_gib", "fits", "tokens_per_s",
    "tokens_per_s_low", "tokens_per_s_high", "tokens_per_s_per_stream", "prompt_tokens_per_s", "limit", "hours", "usd",
    "usd_per_million_tokens", "watts",
}  # fmt: skip
PARTS = {"weights", "gradients", "optimizer", "activations", "kv_cache", "overhead", "total"}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama-3.1-8b", {"on": "p4d.24xlarge", "devices": 8}),
        ("llama-3.1-8b", {}),
        ("llama-3.1-405b", {"on": "M3 Max (40)", "devices": 1, "precision": "q4_k_m"}),
        ("qwen2.5-7b", {"task": "lora", "dataset": 1000, "clouds": ("aws",)}),
        ("qwen2-0.5b", {"task": "dpo", "on": "m2", "devices": 1}),
        ("deepseek-v3", {"precision": "fp8", "requests_per_s": 3.0, "context": "500/500"}),
        ("llama-3.1-405b", {"budget": 1.0}),
        ("llama-3.1-8b", {"users": 40, "tokens_per_user": 20.0}),
        ("llama-3.1-8b", {"on": ("L4", "L40S"), "devices": 1}),
        ("bge-m3", {"requests_per_s": 20.0, "latency_s": 4.0}),
        ("llama-3.1-8b", {"on": "Etched Sohu", "devices": 1}),
        ("mixtral-8x7b", {"task": "pretrain", "tokens": "1B", "on": "TPU v5e", "devices": 256}),
    ],
)
def test_every_json_document_matches_the_schema(model, options, answer_size):
    document = json.loads(json.dumps(build_sizing_document(answer_size(model, **options)), allow_nan=False))
    jsonschema.Draft202012Validator(load_sizing_schema()).validate(document)
    assert all(set(plan) >= CONTRACT for plan in document["plans"])


def test_schema_is_valid_and_has_the_required_keys():
    jsonschema.Draft202012Validator.check_schema(load_sizing_schema())
    assert set(load_sizing_schema()["$defs"]["plan"]["required"]) >= CONTRACT
    assert set(load_sizing_schema()["$defs"]["memory"]["required"]) == PARTS
    assert set(load_sizing_schema()["required"]) == {
        "workload",
        "memory_gib",
        "quick_estimate",
        "plans",
        "warnings",
    }


def test_total_memory_is_the_sum_of_its_parts(answer_size):
    memory_gib = build_sizing_document(answer_size(on="p4d.24xlarge", devices=8))["memory_gib"]
    assert memory_gib["total"] == pytest.approx(sum(memory_gib[part] for part in PARTS - {"total"}), rel=1e-4)


def test_command_prints_a_table_or_json(gpufleet, project):
    arguments = ("size", "--model", "llama-3.1-8b", "--on", "p4d.24xlarge", "--devices", "8")
    completed = gpufleet(*arguments, "--json", cwd=project)
    document = json.loads(completed.stdout)
    assert completed.stderr == ""
    assert len(document["plans"]) == 1
    output = gpufleet(*arguments, cwd=project).stdout
    for text in (
        "Llama-3.1-8B",
        "p4d.24xlarge",
        "Quick estimate",
        "fullest device",
        "80 % RANGE",
        "one stream",
    ):
        assert text in output
    assert "\x1b" not in output


def test_command_works_outside_a_project(gpufleet, tmp_path):
    completed = gpufleet("size", "--model", "qwen2.5-7b", "--json", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout)["plans"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--model", "lamma-3.1-8b"), 2, "--model: unknown model 'lamma-3.1-8b'; did you mean"),
        (("--model", "llama-3.1-8b", "--on", "H100"), 2, "--on: accelerator 'H100' is ambiguous"),
        (("--model", "llama-3.1-8b", "--batch", "0"), 2, "--batch: 0 is too few"),
        (("--model", "llama-3.1-8b", "--devices", "x"), 2, "'x' is not a valid integer"),
        ((), 2, "--model is missing"),
        (("--model", "llama-3.1-8b", "--on", ""), 2, "--on: is empty"),
        (("--model", "llama-3.1-8b", "--precision", " "), 2, "--precision: is empty"),
        (("--model", "llama-3.1-8b", "--cloud", ""), 2, "--cloud: is empty"),
        (("--model", "llama-3.1-8b", "--merge"), 2, "--merge: can only be combined with --emit"),
        (("--model", "llama-3.1-8b", "--on", "p4d.24xlarge", "--cloud", "gcp"), 2, "is a machine of aws"),
        (("--model", "llama-3.1-405b", "--budget", "1"), 1, "no plan is within"),
        (("--model", "llama-3.1-8b", "--on", "M2 (10)", "--engine", "tensorrt-llm"), 1, "runs on cuda"),
    ],
)
def test_exit_code_follows_the_result(arguments, code, message, gpufleet, project):
    completed = gpufleet("size", *arguments, cwd=project)
    assert completed.returncode == code, completed.stderr
    assert message in completed.stderr
    assert "Traceback" not in completed.stderr


def test_empty_result_prints_its_reason_as_json(gpufleet, project):
    completed = gpufleet("size", "--model", "llama-3.1-405b", "--budget", "1", "--json", cwd=project)
    assert completed.returncode == 1
    document = json.loads(completed.stdout)
    assert document["plans"] == []
    assert document["closest"]["hardware"]


PROBE = """
import sys
from gpufleet.cli import main
sys.argv = ["gpufleet", "size", "--model", "llama-3.1-8b", "--json"]
try:
    main()
except SystemExit:
    pass
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def test_command_imports_no_heavy_module(project, clean_env):
    heavy = ("pydantic", "pulumi", "boto3", "altair", "sqlalchemy", "numpy", "gguf", "rich", "gpufleet.fleet")
    completed = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=heavy)],
        cwd=project, env=clean_env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert completed.stderr.strip() == "[]"

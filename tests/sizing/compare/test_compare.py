"""Comparison of accelerators: facts, prices, speed of a model, JSON and table."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest
from click.testing import CliRunner

from gpufleet import catalog
from gpufleet.cli import gpufleet as command_line
from gpufleet.errors import InputError
from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.comparison import peak_tflops_and_format, roofline_ridge_point
from gpufleet.sizing.compare.document import build_comparison_document, load_comparison_schema
from gpufleet.sizing.compare.options import build_sizing_request
from gpufleet.sizing.compare.report import format_comparison_report
from gpufleet.sizing.compare.selection import DEFAULT_ACCELERATORS


def compare(*names, **options):
    return compare_accelerators(names, build_sizing_request(**{"model": "", **options}))


def compare_one(name, **options):
    return compare(name, **options).accelerators[0]


def test_default_comparison_has_every_kind():
    results = compare().accelerators
    assert [result.accelerator.name for result in results] == list(DEFAULT_ACCELERATORS)
    assert {result.accelerator.kind for result in results} >= {"gpu_datacenter", "gpu_gaming", "apple", "sbc"}
    assert all(result.plan is None for result in results)


def test_blades_and_boards_are_compared_by_their_names_in_rack_files():
    results = compare(
        "Compute Blade CM4 8GB", "compute blade cm5 16GB", model="llama-3.1-8b", precision="q4_k_m"
    )
    old, new = results.accelerators
    assert (old.accelerator.name, old.accelerator.bandwidth_gb_s) == ("Compute Blade CM4 8GB", 12.8)
    assert (new.accelerator.memory_gib, new.accelerator.bandwidth_gb_s) == (16, 17.1)
    assert new.plan.tokens_per_s > 2 * old.plan.tokens_per_s


def test_compared_names_keep_their_order_without_duplicates():
    results = compare("rtx 4090", "L40S", "GeForce RTX 4090").accelerators
    assert [result.accelerator.name for result in results] == ["GeForce RTX 4090", "L40S"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("H100", "ambiguous; name one of: H100 PCIe 80GB"), ("H1000", "unknown accelerator"), (" ", "is empty")],
)
def test_unknown_name_is_refused_in_one_line_with_suggestions(name, message, gpufleet, project):
    completed = gpufleet("compare", name, cwd=project)
    assert completed.returncode == 2
    assert message in completed.stderr
    assert completed.stderr.count("\n") == 1
    assert completed.stdout == ""


def test_price_is_for_one_device_and_the_cheapest_of_its_kind():
    subject = compare_one("H100 SXM5 80GB")
    kinds = [price.purchase for price in subject.prices]
    assert len(kinds) == len(set(kinds))
    assert subject.cheapest_device_price.purchase != "spot"
    steady = [price for price in subject.prices if price.purchase != "spot"]
    assert subject.cheapest_device_price == min(steady, key=lambda price: price.usd_per_hour)
    demand = next(price for price in subject.prices if price.purchase == "on_demand")
    cheapest = [
        offer.price.usd_per_hour / offer.machine.accelerators[0].count
        for offer in catalog.search_offers(purchase="on_demand")
        if offer.machine.accelerators and offer.machine.accelerators[0].model == "H100 SXM5 80GB"
    ]
    assert demand.usd_per_hour == pytest.approx(min(cheapest))


def test_shared_card_is_priced_below_the_complete_card():
    names = {price.machine for price in compare_one("A10").prices}
    assert names
    assert not names & {"Standard_NV6ads_A10_v5", "Standard_NV12ads_A10_v5", "Standard_NV18ads_A10_v5"}


def test_accelerator_that_nobody_rents_out_has_no_price():
    subject = compare_one("M4 Max (40)", model="llama-3.1-8b")
    assert (subject.cheapest_device_price, subject.replica_usd_per_hour, subject.tokens_per_usd) == (
        None,
        None,
        None,
    )


def test_speed_per_watt_and_per_dollar_are_computed_from_the_plan():
    subject = compare_one("L4", model="llama-3.1-8b", precision="q4_k_m")
    plan = subject.plan
    assert plan.tokens_per_s_low < plan.tokens_per_s < plan.tokens_per_s_high
    assert subject.tokens_per_joule == pytest.approx(plan.tokens_per_s / plan.total_watts)
    assert subject.tokens_per_usd == pytest.approx(
        plan.tokens_per_s * 3600 / subject.cheapest_device_price.usd_per_hour
    )


def test_large_model_is_placed_on_the_fewest_devices():
    subject = compare_one("A100 SXM4 80GB", model="llama-3.1-70b")
    assert subject.plan.devices == 2
    assert subject.name_with_count == "2 x A100 SXM4 80GB"
    assert subject.replica_usd_per_hour == pytest.approx(2 * subject.cheapest_device_price.usd_per_hour)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Radeon RX 460", {"model": "llama-3.1-8b", "engine": "vllm"}, "vllm runs on"),
        ("Compute Module 5 / Pi 5", {"model": "llama-3.1-405b"}, "does not fit on any number of devices"),
        ("Etched Sohu", {"model": "llama-3.1-8b"}, "the memory bandwidth of"),
    ],
)
def test_unplaced_accelerator_has_a_reason(name, options, message):
    subject = compare_one(name, **options)
    assert subject.plan is None
    assert message in subject.rejection_reason
    assert message in format_comparison_report(compare(name, **options))


def test_training_is_compared():
    results = compare("H100 SXM5 80GB", "RTX 4090", model="llama-3.1-8b", task="lora").accelerators
    assert results[0].plan.tokens_per_s > 2 * results[1].plan.tokens_per_s
    assert all(result.plan.workload.is_training for result in results)


@pytest.mark.parametrize(
    ("name", "precision", "rate", "computed_in"),
    [
        ("H100 SXM5 80GB", "bf16", 989, "bf16"),
        ("H100 SXM5 80GB", "fp8", 1979, "fp8"),
        ("A100 SXM4 80GB", "fp8", 312, "bf16"),
        ("H100 SXM5 80GB", "fp4", 1979, "fp8"),
        ("H100 SXM5 80GB", "q4_k_m", 989, "bf16"),
        ("Tesla P40", "bf16", 11.76, "fp32"),  # its 16-bit rate is a sixty-fourth of that
        ("H100 SXM5 80GB", "f32", 66.9, "fp32"),
    ],
)
def test_peak_rate_is_dense_and_in_a_supported_format(name, precision, rate, computed_in):
    peak, used = peak_tflops_and_format(catalog.get_accelerator(name), precision)
    assert (peak, used) == (pytest.approx(rate, rel=0.01), computed_in)


def test_ridge_point_is_peak_rate_divided_by_bandwidth():
    assert roofline_ridge_point(catalog.get_accelerator("H100 SXM5 80GB")) == pytest.approx(989e12 / 3352e9)
    assert roofline_ridge_point(catalog.get_accelerator("Etched Sohu")) is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "llama-3.1-8b"},
        {"model": "llama-3.1-70b", "precision": "q4_k_m"},
        {"model": "qwen2.5-7b", "task": "qlora"},
    ],
)
def test_complete_json_matches_the_schema(options):
    document = build_comparison_document(compare(*catalog.load_accelerators(), **options))
    jsonschema.Draft202012Validator.check_schema(load_comparison_schema())
    jsonschema.Draft202012Validator(load_comparison_schema()).validate(
        json.loads(json.dumps(document, allow_nan=False))
    )
    assert len(document["accelerators"]) == len(catalog.load_accelerators())
    assert (
        all(
            (accelerator["result"] is None) == bool(accelerator["rejection_reason"])
            for accelerator in document["accelerators"]
        )
        or not options
    )


def test_json_has_sources_of_facts_and_prices():
    document = build_comparison_document(compare("H100 SXM5 80GB"))["accelerators"][0]
    assert document["source"]
    assert document["dense_tera_per_s"]["fp8"] == 1979
    assert document["prices"][0]["source"]
    assert document["prices"][0]["as_of"]


def test_command_prints_a_table_or_json(gpufleet, project):
    arguments = ("compare", "H100 SXM5", "RTX 4090", "--model", "llama-3.1-8b", "--precision", "q4_k_m")
    output = gpufleet(*arguments, cwd=project).stdout
    for text in (
        "ACCELERATOR",
        "USABLE",
        "USD/HOUR",
        "AS OF",
        "dense",
        "80 % RANGE",
        "TOKENS/JOULE",
        "USD/M TOKENS",
    ):
        assert text in output
    document = json.loads(gpufleet(*arguments, "--json", cwd=project).stdout)
    assert [accelerator["result"]["devices"] for accelerator in document["accelerators"]] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--precision", "fp8"), "--precision: needs a model; give --model"),
        (("--plot", "roofline"), "--plot: has no output file"),
        (
            ("--plot", "roofline", "--plot", "power", "--svg", "x.svg"),
            "an .svg file can contain only one plot",
        ),
        (("--plot", "tokens", "--svg", "x.svg"), "give --model"),
        (("--plot", "training", "--svg", "x.svg", "--model", "qwen2-0.5b"), "needs a training task"),
        (("--plot", "pie", "--svg", "x.svg"), "'pie' is not one of"),
        (("--model", "no-such-model"), "unknown model"),
        (("--svg", "no/such/folder/x.svg"), "cannot be written"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line_and_write_nothing(
    arguments, message, gpufleet, project, tmp_path
):
    completed = gpufleet("compare", *arguments, cwd=project)
    assert completed.returncode == 2
    assert message in completed.stderr
    assert "Traceback" not in completed.stderr
    assert not (project / "x.svg").exists()


PROBE = """
import sys
from gpufleet.cli import main
sys.argv = ["gpufleet", "compare", "--model", "llama-3.1-8b", "--json"]
try:
    main()
except SystemExit:
    pass
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def test_table_does_not_import_the_plotting_library(project, clean_env):
    heavy = (
        "altair",
        "vl_convert",
        "pandas",
        "numpy",
        "jinja2",
        "pydantic",
        "pulumi",
        "sqlalchemy",
        "gpufleet.fleet",
    )
    completed = subprocess.run(
        [sys.executable, "-c", PROBE.format(heavy=heavy)],
        cwd=project, env=clean_env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert completed.stderr.strip() == "[]"


def test_options_without_a_model_are_refused():
    assert build_sizing_request(model="") is None
    with pytest.raises(InputError, match="--batch: needs a model"):
        build_sizing_request(model="", batch="4")


def test_command_compares_several_accelerators():
    result = CliRunner().invoke(command_line, ["compare", "H100 SXM5", "MI300X", "--json"])
    assert result.exit_code == 0, result.output
    names = [accelerator["name"] for accelerator in json.loads(result.output)["accelerators"]]
    assert names == ["H100 SXM5 80GB", "Instinct MI300X"]

"""Test the judgement of GPU work: recorded runs pass, faults fail, what was not measured is not_run."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import load_thresholds, select_thresholds
from gpufleet.burnin.verdict import judge_attempt, judge_check

BASES = Path(__file__).parents[1] / "cases/burnin/bases"
RECORDS = {
    record["name"]: record
    for record in json.loads((BASES / "gpu_server.json").read_text())["records"]
    if str(record.get("name", "")).startswith("gpu_")
}
PARTS = {"NVIDIA H100 80GB HBM3": "h100_sxm", "NVIDIA H200": "h200_sxm"}
RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded/gpu"
RUNS = yaml.safe_load((RECORDED / "index.yaml").read_text())
CHECKS = ("gpu_compute", "gpu_memory", "gpu_copy")
BARE_METAL = {
    "card": {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"},
    "port": {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"},
}


def judge(check, changes=(), device=1, neighbour=None, **raw):
    """Judge a recorded check with values of one GPU changed by dotted path; the path "" replaces the whole GPU."""
    record = copy.deepcopy(RECORDS[check])
    record["raw"] |= raw
    if neighbour is not None:
        record["raw"]["devices"][0] = neighbour
    for path, value in dict(changes).items():
        if not path:
            record["raw"]["devices"][device] = value
            continue
        *parents, last = path.split(".")
        place = record["raw"]["devices"][device]
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = value
    return judge_check(record, select_thresholds("gpu_server"), "", False)


@pytest.mark.parametrize("check", CHECKS)
def test_recorded_h100_passes(check):
    result = judge(check)
    assert (result.outcome, result.reason) == ("pass", "")
    assert result.measured is not None


def read_run(run):
    """Return a recorded run's records."""
    return [json.loads(line) for line in (RECORDED / run["file"]).read_text().splitlines()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["file"])
def test_recorded_run_on_real_gpus_has_its_verdict(run):
    content = (RECORDED / run["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == run["sha256"]
    assert run["origin"]
    assert run["licence"]
    start, *checks, end = read_run(run)
    names = {device["name"] for check in checks for device in check["raw"].get("devices", ())}
    assert names == {run["part"]}
    base = json.loads((BASES / "cloud_vm.json").read_text())["records"]
    others = [record for record in base if record["type"] == "check" and "gpu" not in record["name"]]
    report = judge_attempt([start, *others, *checks, end], "cloud_vm", "quick", is_configured=True)
    assert report.verdict == run["verdict"]
    assert {check.name: check.outcome for check in report.checks if check.name in run["outcomes"]} == run[
        "outcomes"
    ]


def test_real_gpus_have_the_same_checksums():
    records = [record for run in RUNS for record in read_run(run) if record.get("name") == "gpu_compute"]
    products = [product for record in records for product in record["raw"]["devices"][0]["matmul"]]
    checksums = {(product["kernel"], product["size"], product["checksum"]) for product in products}
    assert len(products) == 2 * len(RUNS)
    assert len(checksums) == 2


def test_corpus_has_no_unlisted_run():
    assert {path.name for path in RECORDED.glob("*.jsonl")} == {run["file"] for run in RUNS}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["file"])
def test_run_of_a_part_is_judged_by_all_its_floors_and_no_other_part(run):
    metrics = {}
    for record in read_run(run):
        if record.get("name") in CHECKS:
            metrics |= extract_check_metrics(record["name"], record["raw"]).metrics
    part = PARTS[run["part"]]
    floors = {row.metric: row.value for row in load_thresholds() if row.card == part and row.check in CHECKS}
    assert len(floors) == 7
    rates = {metric: value for metric, value in metrics.items() if metric in floors}
    assert not [row for row in load_thresholds() if row.card not in {"", part} and row.metric in metrics]
    # Neither so tight that the next healthy machine fails, nor so low that a half-speed part passes.
    assert all(0.55 * rates[metric] < floor < 0.9 * rates[metric] for metric, floor in floors.items())
    assert floors.keys() == rates.keys()


FAULTS = [
    ("gpu_compute", {"matmul.0.wrong_vectors": 1}, "computed a wrong result"),
    (
        "gpu_compute",
        {"matmul.1.exact": {"rows": 8192, "wrong_rows": 1, "fractions": 0}},
        "computed a wrong result",
    ),
    (
        "gpu_compute",
        {"matmul.0.exact": {"rows": 8192, "wrong_rows": 0, "fractions": 1}},
        "computed a wrong result",
    ),
    ("gpu_compute", {"matmul.0.cublas": {"ran": True, "different_vectors": 1}}, "computed a wrong result"),
    ("gpu_compute", {"orbits.f64.wrong": 1}, "computed a wrong result"),
    ("gpu_compute", {"matmul.0.checksum": "0000000000000000"}, "different products"),
    ("gpu_compute", {"matmul.0.tflops": 494.5}, "tensor cores are slow"),
    (
        "gpu_compute",
        {"": {"failed": "cuCtxSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE", "code": 214}},
        "hardware error",
    ),
    (
        "gpu_memory",
        {"": {"failed": "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED", "code": 719}},
        "hardware error",
    ),
    ("gpu_memory", {"wrong_vectors.55": 1}, "read back wrong"),
    ("gpu_memory", {"read_gb_per_s": 1675.0}, "reads slowly"),
    ("gpu_memory", {"write_gb_per_s": 1675.0}, "writes slowly"),
    ("gpu_memory", {"copy_gb_per_s": 1675.0}, "copies slowly"),
    ("gpu_memory", {"errors_after.ecc_uncorrected": 1}, "uncorrected ECC errors under load"),
    ("gpu_memory", {"errors_after.remap_pending": 1}, "row remap waits"),
    ("gpu_memory", {"errors_after.remap_failed": 1}, "could not be remapped"),
    ("gpu_copy", {"errors_after.recovery_action": 1}, "asks for a reset"),
    ("gpu_copy", {"wrong_vectors": 1}, "arrived wrong"),
    ("gpu_copy", {"peers": [{"peer": "0000:18:00.0", "wrong_vectors": 3}]}, "arrived wrong"),
    ("gpu_copy", {"to_device_gb_per_s": 12.5}, "copies to the GPU are slow"),
    ("gpu_copy", {"to_host_gb_per_s": 12.5}, "copies to the host are slow"),
    ("gpu_copy", {"slot": BARE_METAL, "series.extremes.link_lanes": [8, 8]}, "fewer lanes"),
    ("gpu_copy", {"slot": BARE_METAL, "series.extremes.link_generation": [1, 4]}, "below the generation"),
]


@pytest.mark.parametrize(("check", "changes", "meaning"), FAULTS)
def test_fault_of_one_gpu_is_a_fail(check, changes, meaning):
    result = judge(check, changes)
    assert result.outcome == "fail"
    assert meaning in result.reason


@pytest.mark.parametrize("unmeasured", [{"busy": "1 other process uses the GPU"}, {"error": "timed out"}, {}])
@pytest.mark.parametrize(("check", "changes", "meaning"), FAULTS)
def test_fault_counts_beside_a_gpu_that_was_not_measured(check, changes, meaning, unmeasured):
    if meaning == "different products":
        return  # needs two products to compare
    assert judge(check, changes, neighbour=unmeasured).outcome == "fail"


@pytest.mark.parametrize(
    ("check", "changes", "reason"),
    [
        *((check, {"": {"busy": "1 other process uses the GPU"}}, "other process") for check in CHECKS),
        *((check, {"": {"error": "ended by signal 9"}}, "signal 9") for check in CHECKS),
        *((check, {"": {"failed": "cuInit: UNKNOWN", "code": 999}}, "cuInit: UNKNOWN") for check in CHECKS),
        *((check, {"": {}}, "empty") for check in CHECKS),
        *((check, {"series": {"extremes": {}, "count": 0, "event_reasons_seen": 0}}, "no sensor") for check in CHECKS),
        ("gpu_compute", {"matmul": []}, "matmul is not a count"),
        ("gpu_compute", {"matmul.0.wrong_vectors": "0"}, "wrong_vectors is not a count"),
        ("gpu_compute", {"matmul.0.wrong_vectors": -1}, "wrong_vectors is not a count"),
        ("gpu_compute", {"matmul.0.runs": 0}, "runs is not a count"),
        ("gpu_compute", {"orbits": {}}, "orbits is not a count"),
        ("gpu_memory", {"wrong_vectors": {}}, "no pattern"),
        ("gpu_memory", {"tested_bytes": 1 << 30}, "free bytes were tested"),
        ("gpu_memory", {"errors_after": {}}, "only once"),
        ("gpu_copy", {"wrong_vectors": None}, "wrong_vectors is not a count"),
        ("gpu_copy", {"slot": BARE_METAL, "series.extremes.link_lanes": []}, "not read under load"),
    ],
)  # fmt: skip
def test_what_was_not_measured_is_never_a_pass(check, changes, reason):
    result = judge(check, changes)
    assert result.outcome == "not_run"
    assert reason in result.reason


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("metric", ["missing rate", "missing devices", "missing GPU"])
def test_missing_parts_of_a_record(check, metric):
    if metric == "missing GPU":
        assert judge(check, expect_gpus=8).outcome == "fail"
        assert judge(check, on_bus=["a"] * 3).outcome == "fail"
    elif metric == "missing devices":
        assert judge(check, devices=None).outcome == "not_run"
        assert judge(check, devices=[]).outcome == "fail"
    else:
        rates = {
            "gpu_compute": "matmul.0.tflops",
            "gpu_memory": "copy_gb_per_s",
            "gpu_copy": "to_host_gb_per_s",
        }
        devices = copy.deepcopy(RECORDS[check]["raw"]["devices"][:1])
        result = judge(check, {rates[check]: None}, device=0, devices=devices, on_bus=[], expect_gpus=1)
        assert result.outcome == "not_run"


@pytest.mark.parametrize(
    ("check", "changes", "meaning"),
    [
        *(
            ("gpu_compute", {"series.event_reasons_seen": bits}, "slows a GPU down")
            for bits in (0x8, 0x40, 0x80)
        ),
        ("gpu_compute", {"series.event_reasons_seen": 0x20}, "because of heat"),
        ("gpu_compute", {"series.extremes.margin_c": [0, 40]}, "slowdown temperature under load"),
        (
            "gpu_compute",
            {"series.extremes": {"event_reasons": [0, 0], "celsius": [40, 89]}},
            "slowdown temperature",
        ),
    ],
)
def test_heat_and_brakes_under_load_are_warnings(check, changes, meaning):
    result = judge(check, changes)
    assert result.outcome == "warn"
    assert meaning in result.reason


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        # A power cap under full load, and application clocks, are how a healthy GPU works.
        ("gpu_compute", {"series.event_reasons_seen": 0x4 | 0x1 | 0x2 | 0x10}),
        # The operator's lower power limit: floors were measured at the default one.
        ("gpu_compute", {"limits.power_limit_mw": 350000, "matmul.0.tflops": 400.0}),
        # Other parts have no floors.
        ("gpu_compute", {"name": "NVIDIA L4", "matmul.0.tflops": 60.0}),
        ("gpu_memory", {"name": "NVIDIA L4", "copy_gb_per_s": 230.0}),
        ("gpu_copy", {"name": "NVIDIA L4", "to_host_gb_per_s": 12.0}),
        # A card without ECC, row remapping or memory sensor.
        ("gpu_memory", {"errors_before": {}, "errors_after": {}}),
        # A link that rests between copies; a slot of eight lanes; a port that a VM does not show; a narrow idle link.
        ("gpu_copy", {"slot": BARE_METAL, "series.extremes.link_generation": [1, 5]}),
        ("gpu_copy", {"slot": {**BARE_METAL, "port": {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "8"}},
                      "series.extremes.link_lanes": [8, 8]}),
        ("gpu_copy", {"slot": {**BARE_METAL, "port": {"max_link_speed": "8.0 GT/s PCIe", "max_link_width": "16"}},
                      "series.extremes.link_generation": [3, 3]}),
        ("gpu_copy", {"series.extremes.link_lanes": [8, 8], "series.extremes.link_generation": [3, 3]}),
        # GPUs before Volta have no tensor cores; the orbits still count.
        ("gpu_compute", {"name": "Tesla P100", "matmul": [], "matmul_missing": "no kernel for compute capability 6.0"}),
        ("gpu_compute", {"matmul.0.cublas": {"ran": False, "reason": "not installed"}}),
    ],
)  # fmt: skip
def test_healthy_variety_is_no_fault(check, changes):
    result = judge(check, changes)
    assert (result.outcome, result.reason) == ("pass", "")


def test_a_stand_in_driver_never_passes_outside_a_rehearsal():
    result = judge("gpu_compute", fake=True)
    assert (result.outcome, result.reason) == ("not_run", "answered by a fake tool")


def test_gpus_on_the_bus_of_an_undeclared_machine_are_required():
    records = json.loads((BASES / "cloud_vm.json").read_text())["records"]
    report = judge_attempt(records, "cloud_vm", "quick", is_configured=True)
    assert report.verdict == "healthy"
    for record in records:
        if record.get("name") == "gpu_nvidia":
            record["raw"] = {"on_bus": ["0000:00:1e.0"]}
    report = judge_attempt(records, "cloud_vm", "quick", is_configured=True)
    assert report.verdict == "incomplete"
    assert {"gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia", "gpu_xid"} <= set(report.required)

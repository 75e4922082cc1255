"""Test collectives: recorded output of nccl-tests, and each way in which a run can fail to show sound results."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.agent.gpu_device import VISIBILITY_VARIABLES
from gpufleet.burnin.agent.host import CommandOutput, HostAccess
from gpufleet.burnin.checks.nccl import measure as nccl_check
from gpufleet.burnin.checks.nccl import read as nccl
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded/nccl"
CASES = yaml.safe_load((RECORDED / "index.yaml").read_text())
K80 = (RECORDED / "perfkit-k80.txt").read_text()
# The recording as it looks with verification: its N/A replaced by 0, as the program's source prints it.
VERIFIED = K80.replace("N/A", "  0").replace("validation: 0", "validation: 1")


def judge(text, *, code=0, error="", gpus=2):
    run = {"command": "all_reduce_perf", "code": code, "text": text, "error": error}
    raw = {"gpus": gpus, "runs": {"all_reduce": run}}
    return judge_check(
        {"name": "nccl", "status": "ran", "raw": raw}, select_thresholds("gpu_server"), "", False
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_recorded_output_is_read_and_unverified_results_never_pass(case):
    content = (RECORDED / case["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == case["sha256"]
    assert case["origin"]
    assert case["licence"]
    report = nccl.parse_collective_report(content.decode())
    assert (report.ranks, len(report.rows), report.largest_busbw) == (
        case["ranks"], case["rows"], case["busbw"],
    )  # fmt: skip
    assert (report.out_of_bounds, report.wrong_values) == (0, None)
    result = judge(content.decode(), gpus=case["ranks"])
    assert (result.outcome, "were not verified" in result.reason) == (case["outcome"], True)


def test_corpus_has_no_unlisted_file():
    found = {path.name for path in RECORDED.iterdir() if path.suffix in {".log", ".txt"}}
    assert found - {"LICENSE-superbench.txt"} == {case["file"] for case in CASES}


def test_verified_results_pass():
    result = judge(VERIFIED)
    assert (result.outcome, result.measured, result.unit) == ("pass", 0.61, "GB/s")


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        (
            VERIFIED.replace("0  1763386", "7  1763386"),
            "fail",
            "wrong values (7 values",
        ),
        (
            VERIFIED.replace("bounds values : 0 OK", "bounds values : 3 FAILED"),
            "fail",
            "wrong values (3 values",
        ),
        (K80.replace("bounds values : 0 OK", "bounds values : 3 FAILED"), "fail", "wrong values (3 values"),
        (VERIFIED.replace("#   Rank  1", "#   Rxnk  1"), "fail", "took no part"),
        ("", "not_run", "no output"),
        ("NCCL failure: unhandled cuda error", "not_run", "unhandled cuda error"),
        (VERIFIED.split("#       size")[0], "not_run", "exit 0"),
    ],
)
def test_output_is_judged(text, outcome, reason):
    result = judge(text)
    assert result.outcome == outcome
    assert reason in result.reason


def test_wrong_values_fail_although_the_program_fails_too():
    text = VERIFIED.replace("bounds values : 0 OK", "bounds values : 3 FAILED")
    assert judge(text, code=1).outcome == "fail"


def test_tags_of_mpirun_are_removed():
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in VERIFIED.splitlines())
    assert nccl.parse_collective_report(tagged) == nccl.parse_collective_report(VERIFIED)


@pytest.mark.parametrize("runs", [None, [], {}, {"all_reduce": 5}, {"all_reduce": {"text": None}}])
def test_invalid_record_is_never_a_pass(runs):
    record = {"name": "nccl", "status": "ran", "raw": {"gpus": 2, "runs": runs}}
    assert judge_check(record, select_thresholds("gpu_server"), "", False).outcome == "not_run"


def lay_out_gpus(root, count, vendor="0x10de"):
    for at in range(count):
        device = root / f"sys/bus/pci/devices/0000:{at:02x}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor)
        (device / "class").write_text("0x030200")


def test_programs_run_over_all_gpus_with_verification(tmp_path, monkeypatch):
    calls = []
    for name in VISIBILITY_VARIABLES:
        monkeypatch.setenv(name, "0")  # the caller's; a child would get it
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")

    def run(argv, timeout):
        assert not set(VISIBILITY_VARIABLES) & set(os.environ)
        calls.append((argv, timeout))
        return CommandOutput(0, VERIFIED, "")

    lay_out_gpus(tmp_path, 2)
    host = HostAccess(
        params={"nccl_mib": 64}, root=str(tmp_path), run=run, which=lambda tool: f"/usr/bin/{tool}"
    )
    raw = nccl_check.measure_host(host).raw
    options = ["-b", "8M", "-e", "64M", "-f", "2", "-g", "2", "-c", "1", "-n", "20"]
    assert [argv for argv, _ in calls] == [
        ["/usr/bin/all_reduce_perf", *options],
        ["/usr/bin/sendrecv_perf", *options],
    ]
    metrics = extract_check_metrics("nccl", raw).metrics
    assert (metrics["all_reduce_wrong_values"], metrics["sendrecv_gb_per_s"]) == (0, 0.61)


@pytest.mark.parametrize(
    ("count", "params", "reason"),
    [
        (8, {}, "not requested"),
        (1, {"nccl_mib": 64}, "a collective needs two"),
        (8, {"nccl_mib": 64}, "neither nccl-tests nor rccl-tests is installed"),
    ],
)
def test_check_that_cannot_run_says_why(tmp_path, count, params, reason):
    lay_out_gpus(tmp_path, count, "0x1002")
    result = nccl_check.measure_host(HostAccess(params=params, root=str(tmp_path), which=lambda _tool: None))
    assert (result.status, reason in result.reason) == ("not_run", True)


def test_program_is_found_in_its_folder(tmp_path):
    (tmp_path / "opt/rccl-tests/build").mkdir(parents=True)
    (tmp_path / "opt/rccl-tests/build/all_reduce_perf").write_text("")
    host = HostAccess(root=str(tmp_path), which=lambda _tool: None)
    assert nccl_check.find_program(host, "all_reduce_perf") == "/opt/rccl-tests/build/all_reduce_perf"
    assert nccl_check.find_program(host, "sendrecv_perf") is None

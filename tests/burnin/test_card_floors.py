"""Test the floors of cards: each below what a healthy card was measured at, and applied to that card only."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from gpufleet import burnin, catalog
from gpufleet.burnin import card, thresholds
from gpufleet.burnin.override_file import parse_overrides
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.verdict import judge_attempt, judge_check

BASE = json.loads((Path(__file__).parents[1] / "cases/burnin/bases/gpu_server.json").read_text())
FLOORS = card.load_card_floors()
JUDGED = [floor for floor in FLOORS if floor.warn_below or floor.fail_below]
MEMORY = [floor for floor in JUDGED if floor.check == "gpu_memory"]
COLLECTIVES = [floor for floor in JUDGED if floor.check == "nccl"]
# Every card that issue 26 asks for: a floor with its source, or why there is none.
ASKED = (
    "a100_sxm", "a100_sxm_40gb", "a100_sxm_80gb", "a100_pcie_40gb", "a100_pcie_80gb", "a10", "l4", "l40s", "h100_pcie",
    "h100_nvl", "h200_nvl", "gh200", "b200", "gb200", "rtx_pro_6000_server", "mi300x", "mi250x", "mi210",
)  # fmt: skip


def name_of(kind):
    return next(row.names.split(" | ")[0] for row in card.load_cards() if row.card == kind)


def build_record(check, name, **rates):
    """Return a check's record of the healthy server, with another card and other rates."""
    record = copy.deepcopy(next(row for row in BASE["records"] if row.get("name") == check))
    for device in record["raw"]["devices"]:
        device.update(name=name, **rates)
    return record


def judge(record, overrides=(), kind="gpu_server"):
    records = [{"type": "start"}, record, {"type": "end"}]
    return judge_attempt(records, kind, "quick", overrides=overrides).find_check_result(record["name"])


def build_collective(kind, gpus, busbw, largest=1 << 32):
    lines = [
        f"#  Rank {rank:2} Group  0 Pid {rank + 9} on      node device {rank:2} [0000:0{rank}:00] {name_of(kind)}"
        for rank in range(gpus)
    ]
    head = "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
    row = f"{largest} {largest // 4} float sum -1 100.0 1.00 {busbw:.2f} 0 100.0 1.00 {busbw:.2f} 0"
    text = "\n".join([*lines, head, row, "# Out of bounds values : 0 OK"])
    return {
        "type": "check", "name": "nccl", "status": "ran",
        "raw": {"gpus": gpus, "runs": {"all_reduce": {"command": "all_reduce_perf", "code": 0, "text": text}}},
    }  # fmt: skip


def test_each_card_of_the_issue_has_a_floor_or_a_reason():
    listed = {thresholds.COLLECTIVE.sub("", floor.card) for floor in FLOORS}
    assert set(ASKED) <= listed


def test_each_floor_is_below_the_slowest_healthy_card_and_can_fail_half_a_card():
    for floor in JUDGED:
        bounds = [value for value in (floor.fail_below, floor.warn_below) if value]
        assert bounds == sorted(bounds)
        assert 0.45 * floor.slowest < bounds[0]
        assert bounds[-1] <= 0.86 * floor.slowest, floor
        assert floor.source


def test_each_card_is_in_the_catalogue_and_each_name_is_one_of_a_driver():
    for row in card.load_cards():
        assert catalog.get_accelerator(row.catalogue)
        assert all(name.startswith(("NVIDIA ", "AMD ")) for name in row.names.split(" | "))


@pytest.mark.parametrize("floor", MEMORY, ids=lambda floor: f"{floor.card}-{floor.metric}")
def test_memory_rate_of_a_card_passes_at_the_published_rate_and_not_at_half(floor):
    rates = dict.fromkeys(("read_gb_per_s", "write_gb_per_s", "copy_gb_per_s"), 9999.0)
    healthy = build_record("gpu_memory", name_of(floor.card), **rates)
    healthy["raw"]["devices"][0][floor.metric] = floor.slowest
    assert judge(healthy).outcome == "pass"
    healthy["raw"]["devices"][0][floor.metric] = floor.slowest * 0.45
    assert judge(healthy).outcome == "fail"
    if floor.warn_below:
        healthy["raw"]["devices"][0][floor.metric] = floor.warn_below - 1
        result = judge(healthy)
        assert (result.outcome, "slowly" in result.reason) == ("warn", True)


@pytest.mark.parametrize("floor", COLLECTIVES, ids=lambda floor: floor.card)
def test_all_reduce_of_a_node_full_of_cards(floor):
    kind, gpus = floor.card.rsplit("_x", 1)
    assert judge(build_collective(kind, int(gpus), floor.slowest)).outcome == "pass"
    assert judge(build_collective(kind, int(gpus), floor.warn_below - 1)).outcome == "warn"
    assert judge(build_collective(kind, int(gpus), floor.fail_below - 1)).outcome == "fail"


def test_all_reduce_of_fewer_cards_or_smaller_messages_has_no_floor():
    # NVIDIA/aicr issue 1256: one absolute number for every shape of node fails healthy small ones.
    assert judge(build_collective("h100_sxm", 2, 100.0)).outcome == "pass"
    assert judge(build_collective("h100_sxm", 8, 100.0, largest=1 << 26)).outcome == "pass"
    assert judge(build_collective("h100_sxm", 8, 100.0)).outcome == "fail"


def test_gpus_without_a_floor_are_recorded():
    # NVIDIA/nccl issue 1639: 28 GB/s is what eight RTX 5090 without NVLink reach.
    record = build_collective("h100_sxm", 8, 28.0)
    run = record["raw"]["runs"]["all_reduce"]
    run["text"] = run["text"].replace("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 5090")
    assert judge(record).outcome == "pass"
    metrics = extract_check_metrics("nccl", record["raw"]).metrics
    assert metrics["geforce_rtx_5090_x8_all_reduce_gb_per_s"] == 28.0


def test_gb200_at_the_old_gate_of_nvidia_is_reported():
    # NVIDIA/aicr issue 2784: a gate at 450 GB/s lets a GB200 through that is 40 % below its baseline.
    result = judge(build_collective("gb200", 4, 450.0))
    assert (result.outcome, result.threshold) == ("warn", 550)


def test_host_copies_of_an_a100_are_recorded_only():
    # Azure/AI-benchmarking-guide 3bb66ca: 6.27 GB/s to the host on a healthy ND A100 v4.
    record = build_record(
        "gpu_copy", "NVIDIA A100-SXM4-80GB", to_host_gb_per_s=6.27, to_device_gb_per_s=26.28
    )
    assert judge(record).outcome == "pass"


def test_cublas_rate_warns_and_is_not_judged_without_cublas():
    record = build_record("gpu_compute", "NVIDIA A100-SXM4-80GB")
    for device in record["raw"]["devices"]:
        for product in device["matmul"]:
            product["cublas"] = {"ran": True, "different_vectors": 0, "tflops": 150.0}
    result = judge(record)
    assert (result.outcome, "tensor cores are slow in cuBLAS (150 TFLOP/s" in result.reason) == ("warn", True)
    for device in record["raw"]["devices"]:
        for product in device["matmul"]:
            product["cublas"] = {"ran": False, "reason": "no library"}
    assert judge(record).outcome == "pass"


def test_own_kernel_is_not_judged_on_cards_on_which_it_never_ran():
    record = build_record("gpu_compute", "NVIDIA B200")
    for device in record["raw"]["devices"]:
        for product in device["matmul"]:
            product.update(tflops=300.0, cublas={"ran": False})
    assert judge(record).outcome == "pass"


def test_lowered_power_limit_switches_shipped_floors_off_but_not_the_sites():
    limits = {"power_limit_mw": 300_000, "default_power_limit_mw": 700_000}
    record = build_record("gpu_memory", "NVIDIA H100 80GB HBM3", limits=limits, copy_gb_per_s=1000.0)
    assert judge(record).outcome == "pass"
    overrides = parse_overrides(
        "overrides:\n  - {check: gpu_memory, metric: copy_gb_per_s, value: 2000, reason: all of ours at 300 W reach it,"
        " by: Ada, date: 2026-11-20}",
        "f.yaml",
    )
    assert judge(record, overrides).outcome == "fail"


@pytest.mark.parametrize(
    ("name", "cards"),
    [
        ("NVIDIA A100-SXM4-80GB", ("a100_sxm", "a100_sxm_80gb", "a100_sxm4_80gb")),
        ("A100-SXM4-40GB", ("a100_sxm", "a100_sxm_40gb", "a100_sxm4_40gb")),
        ("AMD Instinct MI300X", ("mi300x", "instinct_mi300x")),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", ("radeon_rx_7900_xtx",)),
        ("NVIDIA L4", ("l4",)),
        ("", ()),
        ("\x1b[31m", ("31m",)),
    ],
)
def test_card_of_a_drivers_name(name, cards):
    assert card.list_cards_of_name(name) == cards


def test_hostile_names_stay_bounded():
    devices = [{"name": f"card {number} " + "x" * 10_000, "copy_gb_per_s": 1.0} for number in range(500)]
    metrics = extract_check_metrics("gpu_memory", {"devices": devices}).metrics
    assert len(metrics) < 3 * card.MOST_CARDS + 100
    assert max(map(len, metrics)) < 100


def test_floors_of_one_card_say_nothing_of_another():
    shipped = burnin.select_thresholds("gpu_server")
    record = build_record("gpu_memory", "NVIDIA L4", copy_gb_per_s=250.0)
    result = judge_check(record, shipped, "", rehearsal=False)
    assert result.outcome == "pass"

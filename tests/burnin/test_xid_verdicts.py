"""Test the verdict on a node for every XID of the catalogue, alone and with every recovery action of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.boundary import read_packaged_rows
from gpufleet.burnin.agent.kernel_log import group_hardware_errors
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

GOLDEN = Path(__file__).parents[1] / "cases/burnin/xid-verdicts.csv"
CATALOGUE = read_packaged_rows("gpufleet.burnin", "data/xid.csv")
# nvml.h, nvmlDeviceGpuRecoveryAction_t, and the text that the driver logs with XID 154 (gpud 4a8de33, xid tests).
ACTIONS = {
    "none": ("0x0 (None)", "pass"),
    "reset": ("0x1 (GPU Reset Required)", "fail"),
    "reboot": ("0x2 (Node Reboot Required)", "fail"),
    "drain_p2p": ("0x3 (Drain P2P)", "fail"),
    "drain_and_reset": ("0x4 (Drain and Reset)", "fail"),
    "a later one": ("0x7 (Something New)", "fail"),
}
SEVERITY = ("pass", "warn", "fail")
VERDICTS = {"pass": "healthy", "warn": "degraded", "fail": "faulty"}
RULES = select_thresholds("gpu_server")


def format_xid(row):
    return f"[ 12.5] NVRM: Xid (PCI:0000:18:00): {row['code']}, pid=12, name=python3, {row['description']}\n"


def format_action(text):
    return f"[ 13.5] NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to {text}\n"


def judge_log(log):
    raw = group_hardware_errors(log)
    return judge_check({"name": "gpu_xid", "status": "ran", "raw": raw}, RULES, "", False).outcome


def judge_node(records_of, log):
    change = {"gpu_xid": {"raw": group_hardware_errors(log)}}
    return burnin.judge_attempt(
        records_of({"base": "gpu_server", "change": change}), "gpu_server", "quick"
    ).verdict


def test_verdict_on_a_node_for_every_xid(records_of, golden):
    rows = ["code,immediate,investigatory,verdict"]
    for row in CATALOGUE:
        verdict = judge_node(records_of, format_xid(row))
        assert verdict == VERDICTS[judge_log(format_xid(row))]
        rows.append(f"{row['code']},{row['immediate']},{row['investigatory']},{verdict}")
    golden(GOLDEN, "\n".join(rows) + "\n")


@pytest.mark.parametrize("action", ACTIONS)
def test_every_xid_with_every_recovery_action_takes_the_worse_outcome(action):
    text, outcome = ACTIONS[action]
    assert judge_log(format_action(text)) == outcome
    for row in CATALOGUE:
        if row["code"] == "154":
            continue
        expected = max(judge_log(format_xid(row)), outcome, key=SEVERITY.index)
        assert judge_log(format_xid(row) + format_action(text)) == expected, row["code"]
        assert judge_log(format_action(text) + format_xid(row)) == expected, row["code"]


@pytest.mark.parametrize("action", ACTIONS)
def test_verdict_on_a_node_for_every_recovery_action(records_of, action):
    text, outcome = ACTIONS[action]
    assert judge_node(records_of, format_action(text)) == VERDICTS[outcome]

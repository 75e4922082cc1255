"""Test the judgement of the kernel log: every XID of NVIDIA's catalogue, the kernel's other errors, and storms."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import yaml

from gpufleet.boundary import read_packaged_rows
from gpufleet.burnin.agent.command import run_command
from gpufleet.burnin.agent.kernel_log import MAX_GROUPS, KernelErrorGroups, group_hardware_errors
from gpufleet.burnin.checks.gpu_xid import read as xid
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded/dmesg"
CASES = yaml.safe_load((RECORDED / "index.yaml").read_text())
CATALOGUE = read_packaged_rows("gpufleet.burnin", "data/xid.csv")
# The outcome that each immediate resolution of NVIDIA's catalogue must have.
OUTCOMES = {
    "RESTART_APP": "warn", "IGNORE": "pass", "RESET_GPU": "fail", "CONTACT_SUPPORT": "fail", "RESTART_BM": "fail",
    "RESTART_VM": "fail", "WORKFLOW_NVLINK_ERR": "fail", "WORKFLOW_NVLINK5_ERR": "fail", "WORKFLOW_XID_48": "fail",
    "CHECK_MECHANICALS": "fail", "XID_154": "fail", "WORKFLOW_XID_45": "pass", "CHECK_UVM": "warn",
    "UPDATE_SWFW": "warn",
}  # fmt: skip
# The catalogue names no resolution for these yet.
UNRESOLVED = {
    162: "pass", 163: "warn", 164: "warn", 165: "fail", 166: "warn", 167: "fail", 168: "fail", 169: "fail", 170: "warn",
    171: "fail", 172: "fail",
}  # fmt: skip


def judge(raw):
    return judge_check(
        {"name": "gpu_xid", "status": "ran", "raw": raw}, select_thresholds("gpu_server"), "", False
    )


def judge_log(log):
    """Judge a log as the agent groups it, and as older agents kept its lines: both must agree."""
    result = judge(group_hardware_errors(log))
    assert judge({"lines": log.splitlines()}).outcome == result.outcome
    return result.outcome


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_recorded_kernel_log(case):
    content = (RECORDED / case["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == case["sha256"]
    assert xid.read_record(group_hardware_errors(content.decode())).metrics == case["events"]
    assert judge_log(content.decode()) == case["outcome"]


def test_the_catalogue_is_complete():
    assert [row.get_integer("code") for row in CATALOGUE] == list(range(1, 173))
    assert {row["immediate"] for row in CATALOGUE} == {*OUTCOMES, ""}
    assert all(row["action"] and row["mnemonic"] and row["source"] for row in CATALOGUE)


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row["code"])
def test_verdict_of_every_xid(row):
    code, action = row.get_integer("code"), row["immediate"]
    line = f"[ 12.5] NVRM: Xid (PCI:0000:9b:00): {code}, pid=12, name=python3, {row['description']}\n"
    assert judge_log(line) == (OUTCOMES[action] if action else UNRESOLVED[code])


# Lines as gpud 4a8de33 has them in its tests (components/accelerator/nvidia/{xid,sxid}/kmsg_test.go), and as the
# kernel's sources print them (drivers/pci/pcie/aer.c, drivers/edac/edac_mc.c, mm/memory-failure.c, mm/oom_kill.c,
# drivers/nvme/host, drivers/firmware/efi/cper.c).
CHANGED = "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from"
LINES = [
    (f"{CHANGED} 0x0 (None) to 0x4 (Drain and Reset)", "fail"),
    (f"{CHANGED} 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)", "fail"),
    (f"{CHANGED} 0x0 (None) to 0x2 (Node Reboot Required)", "fail"),
    (f"{CHANGED} 0x1 (GPU Reset Required) to 0x0 (None)", "pass"),
    (f"{CHANGED} nobody knows what", "fail"),
    (
        f"{CHANGED} 0x0 (None) to 0x1 (GPU Reset Required)\n{CHANGED} 0x1 (GPU Reset Required) to 0x0 (None)",
        "pass",
    ),
    (
        f"{CHANGED} 0x1 (GPU Reset Required) to 0x0 (None)\n{CHANGED} 0x0 (None) to 0x1 (GPU Reset Required)",
        "fail",
    ),
    (
        f"{CHANGED} 0x0 (None) to 0x1 (Reset)\n{CHANGED.replace('0009', '0008')} 0x1 (Reset) to 0x0 (None)",
        "fail",
    ),
    ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", "fail"),
    ("NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004 0x80000000)", "warn"),
    ("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.", "fail"),
    ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "fail"),
    ("NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x24:0x65:1589)", "fail"),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
        "warn",
    ),
    ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "fail"),
    ("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030}", "pass"),
    ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0", "fail"),
    ("nvidia 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer", "fail"),
    ("nvidia 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer", "fail"),
    ("pcieport 0000:00:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:01:00.0", "warn"),
    ("pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", "pass"),
    ("nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "pass"),
    ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "fail"),
    ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "pass"),
    ("EDAC MC0: Giving out device to module amd64_edac controller F19h_M10h", "pass"),
    ("Memory failure: 0x3a2f1: recovery action for dirty LRU page: Recovered", "fail"),
    ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400", "fail"),
    ("[Hardware Error]: Uncorrected, software restartable error.", "fail"),
    ("{1}[Hardware Error]: event severity: fatal", "fail"),
    ("{1}[Hardware Error]: event severity: corrected", "pass"),
    ("Out of memory: Killed process 4242 (python3) total-vm:1kB", "warn"),
    ("nvme nvme0: I/O 512 QID 4 timeout, aborting", "warn"),
    ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "fail"),
    ("I/O error, dev nvme0n1, sector 4096 op 0x0:(READ) flags 0x0", "fail"),
    ("critical medium error, dev nvme0n1, sector 4096 op 0x0:(READ)", "fail"),
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04", "pass"),
    ("usb 1-1: new high-speed USB device", "pass"),
]


@pytest.mark.parametrize(("lines", "outcome"), LINES)
@pytest.mark.parametrize("time", ["", "[   12.345678] ", "[Sun Feb 23 16:24:18 2025] ", "<4>[ 31.5] "])
def test_verdict_of_a_line(lines, outcome, time):
    assert judge_log("\n".join(f"{time}{line}" for line in lines.splitlines())) == outcome


@pytest.mark.parametrize("place", [0, 5_000, 9_999])
def test_one_fatal_line_in_a_storm_is_found(place):
    storm = [
        f"[{at}.1] NVRM: Xid (PCI:0000:9b:00): 13, pid={at}, name=x, ESR {at:#x}" for at in range(10_000)
    ]
    storm[place] = "[7.7] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, name=x, DBE"
    raw = group_hardware_errors("\n".join(storm))
    assert (raw["count"], len(raw["groups"])) == (10_000, 2)
    result = judge(raw)
    assert (result.outcome, result.measured) == ("fail", 1)


def test_a_storm_of_fatal_lines_is_faulty_and_short():
    storm = "\n".join(
        f"[{at}.1] NVRM: Xid (PCI:0000:9b:00): 79, pid={at}, GPU has fallen off" for at in range(10_000)
    )
    raw = group_hardware_errors(storm)
    assert (len(str(raw)) < 500, judge(raw).outcome, judge(raw).measured) == (True, "fail", 10_000)


def test_more_kinds_of_errors_than_a_record_holds_are_never_a_pass():
    lines = [f"nvidia-nvswitch0: SXid (PCI:{at:04x}:00:00.0): 1, Non-fatal" for at in range(MAX_GROUPS + 1)]
    raw = group_hardware_errors("\n".join(lines))
    assert raw["dropped_groups"] == 1
    assert judge(raw).outcome == "not_run"


def test_a_long_kernel_log_is_read_to_its_end(tmp_path, monkeypatch):
    fake = tmp_path / "dmesg"
    fake.write_text(
        "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' 'x'\necho\necho 'NVRM: Xid (PCI:0000:9b:00): 79, x'\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    errors = KernelErrorGroups()
    run_command(["dmesg"], 60, errors.add)
    assert errors.summarize()["count"] == 1


def test_unknown_xid_counts_as_fatal():
    assert judge_log("NVRM: Xid (PCI:0000:9b:00): 4242, x") == "fail"

"""Test which parts records show, and which part a fault is attributed to."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.burnin.part import normalize_pci
from gpufleet.burnin.repair_step import choose_ladder

CASES = Path(__file__).resolve().parents[1] / "cases/burnin"


@pytest.fixture(scope="module")
def healthy():
    records = json.loads((CASES / "bases/gpu_server.json").read_text())["records"]
    for record in records:
        if record.get("name") == "gpu_nvidia":
            text = (CASES / "outputs/nvidia-smi-h100-healthy.xml").read_text()
            uuid = "GPU-00000000-0000-0000-0000-00000000000"
            text = text.replace(f"{uuid}0", f"{uuid}2").replace("0000000000000<", "1650321001234<", 1)
            record["raw"]["xml"] = {"text": text}
    return records


def observe(records, change=None):
    records = copy.deepcopy(records)
    raws = {record.get("name"): record.get("raw") for record in records}
    if change:
        change(raws)
    report = burnin.judge_attempt(records, "gpu_server", "quick", node="n")
    return burnin.observe_parts(records, "gpu_server", report)


def faults(observation):
    return [(fault.fault, fault.part_kind, fault.position) for fault in observation.faults]


def test_gpus_are_known_by_serial_uuid_and_place(healthy):
    seen = observe(healthy)
    assert [(part.serial, part.uuid[-1], part.position) for part in seen.parts] == [
        ("1650321001234", "2", "0000:18:00.0"),
        (None, "1", "0000:2a:00.0"),
    ]
    assert seen.faults == ()


def test_wrong_memory_belongs_to_the_gpu_that_had_it(healthy):
    def change(raws):
        raws["gpu_memory"]["devices"][1]["patterns"] = {"wrong": 3}
        raws["gpu_memory"]["devices"][1]["failed"] = "uncorrectable ECC"
        raws["gpu_memory"]["devices"][1]["code"] = 214

    found = faults(observe(healthy, change))
    assert ("gpu_memory.hardware_errors", "gpu", "0000:2a:00.0") in found
    assert all(position == "0000:2a:00.0" for _, _, position in found)


def test_smi_fault_belongs_to_the_gpu_that_reports_it(healthy):
    def change(raws):
        xml = raws["gpu_nvidia"]["xml"]["text"]
        head, tail = xml.rsplit("<remapped_row_failure>No", 1)
        raws["gpu_nvidia"]["xml"]["text"] = f"{head}<remapped_row_failure>Yes{tail}"

    assert faults(observe(healthy, change)) == [("gpu_nvidia.remap_failed", "gpu", "0000:2a:00.0")]


@pytest.mark.parametrize(
    ("action", "number", "steps"),
    [
        ("Reset", 1, ("reset", "reboot", "rma")),
        ("Reboot", 2, ("reboot", "rma")),
        ("Drain P2P", 3, ("reset", "reboot", "rma")),
        ("Drain and Reset", 4, ("reset", "reboot", "rma")),
        ("Replace Everything", None, ("reset", "reboot", "rma")),  # of a driver that does not exist yet
    ],
)
def test_recovery_action_has_the_steps_that_the_driver_names(healthy, action, number, steps):
    def change(raws):
        xml = raws["gpu_nvidia"]["xml"]["text"]
        head, tail = xml.rsplit("<gpu_recovery_action>None", 1)
        raws["gpu_nvidia"]["xml"]["text"] = f"{head}<gpu_recovery_action>{action}{tail}"

    (fault,) = observe(healthy, change).faults
    suffix = f".{number}" if number else ""
    assert (fault.fault, fault.position) == (f"gpu_nvidia.recovery_action{suffix}", "0000:2a:00.0")
    assert choose_ladder(fault.fault).steps == steps
    assert fault.detail.endswith(f": {action}") is bool(number)
    if number:
        assert choose_ladder(fault.fault).meaning == choose_ladder(f"xid_154.{number}").meaning


def test_recovery_action_after_a_load_has_its_steps_too(healthy):
    def change(raws):
        raws["gpu_copy"]["devices"][1].setdefault("errors_after", {})["recovery_action"] = 2

    assert ("gpu_copy.recovery_action.2", "gpu", "0000:2a:00.0") in faults(observe(healthy, change))
    assert choose_ladder("gpu_copy.recovery_action.2").steps[0] == "reboot"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "NVRM: Xid (PCI:0000:2a:00): 79, pid=1, GPU has fallen off the bus.",
            ("xid_79", "gpu", "0000:2a:00.0"),
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot)",
            ("xid_154.2", "gpu", "0000:18:00.0"),
        ),
        (
            "NVRM: GPU 0000:18:00.0: RmInitAdapter failed! (0x22:0x56:802)",
            ("kernel.gpu_lost", "gpu", "0000:18:00.0"),
        ),
        ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1", ("kernel.nvme_lost", "drive", "nvme0n1")),
        (
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
            ("kernel.memory", "memory", "MC0"),
        ),
    ],
)
def test_kernel_error_belongs_to_the_part_that_it_names(healthy, line, fault):
    def change(raws):
        raws["gpu_xid"] |= {"groups": [{"line": line, "count": 7}], "lines": None}

    assert faults(observe(healthy, change)) == [fault]


def test_failed_check_without_parts_is_the_nodes(healthy):
    assert faults(observe(healthy, lambda raws: raws["memory"]["wrong_mib"].update({"ff": 2}))) == [
        ("memory.wrong_mib", "board", "")
    ]


def test_amd_gpus_are_known_by_their_unique_id_and_judged_one_by_one():
    cards = [
        {
            "slot": f"0000:0{number}:00.0",
            "unique_id": f"a1b2c3d4e5f6071{number}",
            "driver": "amdgpu",
            "device": "0x744c",
        }
        for number in (1, 2)
    ]
    cards[1]["ras"] = {"features": "feature mask: 0x3fff", "counts": {"umc_err_count": "ue: 4\nce: 0"}}
    raw = {"devices": cards, "expect_amd_gpus": 2}
    records = [
        {"type": "start", "attempt": "a"},
        {"type": "check", "name": "gpu_amd", "status": "ran", "raw": raw},
        {"type": "end"},
    ]
    report = burnin.judge_attempt(records, "gpu_server", "quick")
    seen = burnin.observe_parts(records, "gpu_server", report)
    assert [(part.uuid, part.position) for part in seen.parts] == [
        ("a1b2c3d4e5f60711", "0000:01:00.0"),
        ("a1b2c3d4e5f60712", "0000:02:00.0"),
    ]
    assert [fault for fault in faults(seen) if fault[0] == "gpu_amd.ras_uncorrected"] == [
        ("gpu_amd.ras_uncorrected", "gpu", "0000:02:00.0")
    ]


@pytest.mark.parametrize("garbage", [None, 7, "x", [], [None], {"a": [1]}])
def test_records_of_any_shape_are_read(healthy, garbage):
    def change(raws):
        for raw in raws.values():
            if isinstance(raw, dict):
                raw.update(dict.fromkeys(list(raw), garbage))

    observe(healthy, change)


def test_pci_addresses_have_one_form():
    assert {normalize_pci(text) for text in ("00000000:2A:00.0", "PCI:0000:2a:00", "0000:2a:00.0")} == {
        "0000:2a:00.0"
    }


@pytest.mark.parametrize(
    ("root", "found"),
    [
        ({"free_share": 0.001, "free_gib": 0.2}, ["storage.free_share"]),
        ({"free_share": 0.2, "free_gib": 0.2}, ["storage.free_gib"]),
        ({"inodes_free_share": 0.0}, ["storage.inodes_free_share"]),
        ({}, ["storage.write_errors"]),
    ],
)
def test_full_disk_is_one_fault(healthy, root, found):
    def change(raws):
        raws["storage"]["root"] |= root
        raws["storage"]["write_error"] = "[Errno 28] No space left on device"

    assert [fault for fault, _, _ in faults(observe(healthy, change))] == found

"""Test what is read from drives: recorded reports of smartctl and fio, and each way in which one can be missing."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.agent import fio
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.nvme_link import measure as nvme_link
from gpufleet.burnin.checks.smart import measure as smart
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded"
SMART_CASES = yaml.safe_load((RECORDED / "smart/index.yaml").read_text())
FIO_CASES = yaml.safe_load((RECORDED / "fio/index.yaml").read_text())
FAILED_NVME = json.loads((RECORDED / "smart/exporter-SAMSUNG-MZWLL3T2HAJQ-00005.json").read_text())
ATA = json.loads((RECORDED / "smart/exporter-ST3500418AS-11.json").read_text())


def read_recorded(case, folder):
    """Return a recorded file's text; its hash must match."""
    content = (RECORDED / folder / case["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == case["sha256"]
    assert case["licence"]
    return content.decode()


def record_smart(*texts):
    """Return what the agent records of drives with these reports."""
    host = HostAccess(run=lambda argv, _timeout: CommandOutput(0, texts[int(argv[-1][-1])], ""))
    return {"drives": [smart.read_smart_health(host, f"sd{at}") for at in range(len(texts))]}


def judge(check, raw):
    return judge_check(
        {"name": check, "status": "ran", "raw": raw}, select_thresholds("gpu_server"), "", False
    )


@pytest.mark.parametrize("case", SMART_CASES, ids=lambda case: case["file"])
def test_recorded_smart_report_is_judged(case):
    assert case["origin"]
    raw = record_smart(read_recorded(case, "smart"))
    metrics = extract_check_metrics("smart", raw).metrics
    assert {name: value for name, value in metrics.items() if value} == case["metrics"]
    assert judge("smart", raw).outcome == case["outcome"]
    assert len(json.dumps(raw)) < 4000  # what one drive may add to a node's record


@pytest.mark.parametrize("folder", ["smart", "fio"])
def test_corpus_has_no_unlisted_file(folder):
    cases = {"smart": SMART_CASES, "fio": FIO_CASES}[folder]
    assert {path.name for path in (RECORDED / folder).glob("*.json")} == {case["file"] for case in cases}


@pytest.mark.parametrize(
    ("field", "value", "outcome", "reason"),
    [
        ("critical_warning", 0x01, "fail", "low spare"),
        ("critical_warning", 0x04, "fail", "degraded reliability"),
        ("critical_warning", 0x08, "fail", "read-only media"),
        ("critical_warning", 0x02, "warn", "temperature"),
        ("critical_warning", 0x20, "warn", "persistent memory"),
        ("available_spare", 9, "fail", "less spare capacity than its own threshold"),
        ("available_spare", 10, "pass", ""),
        ("media_errors", 1, "warn", "media errors"),
        ("percentage_used", 100, "warn", "rated endurance"),
        ("percentage_used", 99, "pass", ""),
    ],
)
def test_nvme_wear_and_warnings(field, value, outcome, reason):
    log = {**FAILED_NVME["nvme_smart_health_information_log"], "critical_warning": 0, field: value}
    report = {**FAILED_NVME, "smart_status": {"passed": True}, "nvme_smart_health_information_log": log}
    result = judge("smart", record_smart(json.dumps(report)))
    assert result.outcome == outcome
    assert reason in result.reason


@pytest.mark.parametrize(
    ("number", "change", "outcome", "reason"),
    [
        (5, {"raw": {"value": 3}}, "warn", "reallocated sectors"),
        (197, {"raw": {"value": 3}}, "warn", "wait for reallocation"),
        (198, {"raw": {"value": 3}}, "warn", "self-scan"),
        (7, {"when_failed": "now"}, "fail", "failure threshold"),
        (7, {"when_failed": "past"}, "warn", "in the past"),
    ],
)
def test_ata_attributes(number, change, outcome, reason):
    table = [
        {**row, "raw": {"value": 0}} | (change if row["id"] == number else {})
        for row in ATA["ata_smart_attributes"]["table"]
    ]
    result = judge("smart", record_smart(json.dumps({**ATA, "ata_smart_attributes": {"table": table}})))
    assert result.outcome == outcome
    assert reason in result.reason


def test_one_failing_drive_counts_where_another_is_unreadable():
    good = json.dumps(ATA)
    assert judge("smart", record_smart(good, json.dumps(FAILED_NVME), "no such device")).outcome == "fail"
    result = judge("smart", record_smart(good, "no such device"))
    assert (result.outcome, result.reason) == (
        "not_run",
        "failing was not measured: sd1: no such device; a drive has reallocated sectors (1 sectors)",
    )


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ({"smart_support": {"available": False}}, "no threshold applies to this check"),
        (
            {"smartctl": {"messages": [{"string": "/dev/sd0: Unable to detect device type"}]}},
            "Unable to detect",
        ),
        ({"smart_status": {"passed": "true"}}, "no SMART status"),
        ([1], "[1]"),
        ({"ata_smart_attributes": {"table": [{"id": 5}, 7, {"id": 197, "raw": 5}]}}, "no SMART status"),
    ],
)
def test_drive_without_a_status_is_never_a_pass(report, reason):
    result = judge("smart", record_smart(json.dumps(report)))
    assert result.outcome == "not_run"
    assert reason in result.reason


def storage_record(**parts):
    root = {"read_only": False, "free_share": 0.9, "free_gib": 400.0, "inodes_free_share": 0.9}
    return {"root": root, "scratch": {"type": "ext4"}, "write_mb_per_s": 900.0, "wrong_mib": 0, **parts}


@pytest.mark.parametrize("case", FIO_CASES, ids=lambda case: case["file"])
def test_recorded_fio_report_is_judged(case):
    report = {
        "ran": True,
        "code": case["code"],
        **fio.parse_fio_report(read_recorded(case, "fio")),
        "error": "",
    }
    result = judge("storage", storage_record(fio=report))
    assert result.outcome == case["outcome"]
    assert case["reason"] in result.reason


@pytest.mark.parametrize(
    ("report", "outcome", "reason"),
    [
        ({"ran": False, "reason": "fio is not installed"}, "pass", ""),
        (None, "pass", ""),
        ({"ran": True, "code": 124, "text": "", "error": "no answer within 62 s"}, "not_run", "no answer"),
        (
            {"ran": True, "code": 1, "error_code": 22, "read_ios": 0, "error": "Invalid argument"},
            "not_run",
            "error 22",
        ),
        ({"ran": True, "code": 0, "error_code": 0, "read_ios": 0}, "not_run", "verified no block"),
        ({"ran": True, "code": 0, "error_code": True, "read_ios": 9}, "not_run", "no report"),
        ({"ran": True, "code": 1, "error_code": 5, "read_ios": 9}, "fail", "I/O error"),
    ],
)
def test_fio_without_a_verified_block_is_never_a_pass(report, outcome, reason):
    result = judge("storage", storage_record(fio=report))
    assert result.outcome == outcome
    assert reason in result.reason


def test_messages_before_fio_report_are_skipped():
    text = (RECORDED / "fio/ours-verified.json").read_text()
    assert fio.parse_fio_report("fio: some warning {x}\n" + text)["error_code"] == 0


def test_fio_itself_accepts_the_options_and_verifies(tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    before = set(Path.cwd().iterdir())
    facts = fio.run_fio(HostAccess(params={"fio_seconds": 0.2}), str(tmp_path))
    assert (facts["code"], facts["error_code"]) == (0, 0)
    assert facts["read_ios"] > 0
    assert judge("storage", storage_record(fio=facts)).outcome == "pass"
    assert (set(Path.cwd().iterdir()), list(tmp_path.iterdir())) == (before, [])


@pytest.mark.parametrize(
    ("speed", "width", "outcome", "reason"),
    [
        ("16.0 GT/s PCIe", "4", "pass", ""),
        ("8.0 GT/s PCIe", "4", "warn", "below the generation"),
        ("16.0 GT/s PCIe", "2", "warn", "fewer lanes"),
    ],
)
def test_nvme_link_is_compared_with_drive_and_port(tmp_path, speed, width, outcome, reason):
    bridge = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    device = bridge / "0000:01:00.0"
    device.mkdir(parents=True)
    limits = {bridge: ("16.0 GT/s PCIe", "8"), device: ("32.0 GT/s PCIe", "4")}
    for folder, (max_speed, max_width) in limits.items():
        (folder / "max_link_speed").write_text(max_speed)
        (folder / "max_link_width").write_text(max_width)
    (device / "current_link_speed").write_text(speed)
    (device / "current_link_width").write_text(width)
    controller = tmp_path / "sys/class/nvme/nvme0"
    controller.mkdir(parents=True)
    (controller / "device").symlink_to(device)
    raw = nvme_link.measure_host(HostAccess(root=str(tmp_path))).raw
    result = judge("nvme_link", raw)
    assert result.outcome == outcome
    assert reason in result.reason


def test_nvme_link_of_an_unknown_port_is_not_judged():
    raw = {"root": "/sys", "devices": [{"current_link_speed": "8.0 GT/s", "max_link_speed": "16.0 GT/s"}]}
    assert "links_slow" not in extract_check_metrics("nvme_link", raw).metrics

"""Test what is read from drives: recorded reports of smartctl and fio, and each way in which one can be missing."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.agent import fio
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.nvme_link import measure as nvme_link
from gpufleet.burnin.checks.smart import measure as smart
from gpufleet.burnin.checks.smart.firmware_fault import load_firmware_faults
from gpufleet.burnin.checks.smart.read import ATA_COUNTERS
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
        "failing was not measured: sd1: no such device; a drive has reallocated sectors (1 sectors): sd0",
    )


def read_used_up_nvme(**changes):
    """Return a report of smartmontools #537: bit 2 is set only because the rated endurance is used up."""
    log = {
        "critical_warning": 4,
        "temperature": 28,
        "available_spare": 100,
        "available_spare_threshold": 10,
        "percentage_used": 100,
        "media_errors": 0,
        **changes,
    }
    status = {"passed": not log["critical_warning"], "nvme": {"value": log["critical_warning"]}}
    return json.dumps({**FAILED_NVME, "smart_status": status, "nvme_smart_health_information_log": log})


@pytest.mark.parametrize(
    ("changes", "outcome", "count"),
    [
        ({}, "warn", 1),
        ({"percentage_used": 255}, "warn", 1),
        ({"critical_warning": 0, "percentage_used": 200}, "warn", 1),  # Napsty/check_smart PR #101
        ({"critical_warning": 6}, "warn", 2),  # worn and hot
        ({"critical_warning": 2, "percentage_used": 3}, "warn", 1),  # hot only
        ({"percentage_used": 99}, "fail", 2),
        ({"media_errors": 3}, "fail", 3),
        ({"available_spare": 10}, "fail", 2),
        ({"critical_warning": 5, "available_spare": 3}, "fail", 3),
        ({"critical_warning": 12}, "fail", 2),
    ],
)
def test_worn_nvme_drive_is_not_broken(changes, outcome, count):
    result = judge("smart", record_smart(read_used_up_nvme(**changes)))
    assert result.outcome == outcome
    findings = [line for line in result.reason.split("; ") if "(" in line]
    assert len([line for line in findings if "endurance" not in line or outcome == "warn"]) == count


@pytest.mark.parametrize(
    ("spare", "threshold", "used", "outcome"),
    [
        (64, 255, 255, "pass"),  # hiyohiyo/CrystalDiskInfo #186: a new drive, these values are reserved
        (100, 100, 3, "pass"),  # hiyohiyo/CrystalDiskInfo #161: the threshold of some Kingston drives
        (9, 10, 3, "fail"),
    ],
)
def test_reserved_shares_of_an_nvme_drive_are_not_read(spare, threshold, used, outcome):
    shares = {"available_spare": spare, "available_spare_threshold": threshold, "percentage_used": used}
    report = read_used_up_nvme(critical_warning=0, **shares)
    assert judge("smart", record_smart(report)).outcome == outcome


@pytest.mark.parametrize(
    ("model", "firmware", "number", "outcome"),
    [
        ("SanDisk pSSD", "6EB 1030", 232, "pass"),  # smartmontools #147, #163; AnalogJ/scrutiny #448
        ("SanDisk pSSD", "6EB 1030", 5, "fail"),
        ("SanDisk SDSSDHII240G", "X31200RL", 232, "fail"),
    ],
)
def test_attribute_that_a_firmware_calls_failed_on_good_drives(model, firmware, number, outcome):
    row = {"id": number, "name": "Perc_Avail_Resrvd_Space", "when_failed": "now", "raw": {"value": 0}}
    report = {
        "smart_status": {"passed": False},
        "model_name": model,
        "firmware_version": firmware,
        "ata_smart_attributes": {"table": [{**row, "flags": {"prefailure": True}}]},
    }
    assert judge("smart", record_smart(json.dumps(report))).outcome == outcome


def test_worn_drive_is_named_with_its_step():
    reason = judge("smart", record_smart(read_used_up_nvme(percentage_used=117))).reason
    assert reason == (
        "a drive has used its rated endurance: plan its replacement (117 %, below 100 %): sd0 117 %"
    )


def test_worn_sas_drive_is_not_broken():
    status = {"passed": False, "scsi": {"asc": 0x5D, "ascq": 0x73, "ie_string": "ENDURANCE LIMIT MET"}}
    report = {"smart_status": status, "scsi_percentage_used_endurance_indicator": 103}
    assert judge("smart", record_smart(json.dumps(report))).outcome == "warn"
    status["scsi"]["ascq"] = 0x10  # hardware impending failure
    assert judge("smart", record_smart(json.dumps(report))).outcome == "fail"


@pytest.mark.parametrize(
    ("number", "name", "model", "raw", "outcome"),
    [
        (197, "Bogus_Current_Pend_Sect", "CT250MX500SSD1", 1, "pass"),  # smartmontools #48
        (197, "Current_Pending_ECC_Cnt", "CT500MX500SSD1", 1, "pass"),  # the name since drivedb 7.3/5528
        (197, "Current_Pending_ECC_Cnt", "CT500MX500SSD1", 9, "warn"),
        (197, "Current_Pending_Sector", "ST4000NM0035", 1, "warn"),
        (197, "Not_In_Use", "a SandForce", 12, "pass"),
        (197, "Total_Unc_Read_Failures", "another", 12, "pass"),
        (198, "Host_Reads_GiB", "another", 5412, "pass"),
        (198, "Uncorrectable_Sector_Ct", "another", 4, "warn"),
        (187, "Total_Unc_NAND_Reads", "another", 4, "pass"),
        (5, "Reallocate_NAND_Blk_Cnt", "CT250MX500SSD1", 2, "warn"),
        (5, None, "an older record", 2, "warn"),
    ],
)
def test_ata_counter_counts_by_its_name(number, name, model, raw, outcome):
    row = {"id": number, "name": name, "when_failed": "", "raw": {"value": raw}}
    report = {
        "smart_status": {"passed": True},
        "model_name": model,
        "ata_smart_attributes": {"table": [row]},
    }
    assert judge("smart", record_smart(json.dumps(report))).outcome == outcome


@pytest.mark.parametrize(("prefailure", "outcome"), [(True, "fail"), (False, "warn"), (None, "fail")])
def test_usage_attribute_at_its_threshold_is_wear(prefailure, outcome):
    row = {"id": 231, "name": "SSD_Life_Left", "when_failed": "now", "raw": {"value": 0}}
    row |= {"flags": {"prefailure": prefailure}} if prefailure is not None else {}
    report = {"smart_status": {"passed": True}, "ata_smart_attributes": {"table": [row]}}
    assert judge("smart", record_smart(json.dumps(report))).outcome == outcome


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ({"model_name": "Micron_7450_MTFDKCC3T8TFR", "firmware_version": "E2MU200"}, "panic state"),
        ({"model_name": "Micron_7450_MTFDKCC3T8TFR", "firmware_version": "E2MU400"}, ""),
        ({"scsi_model_name": "HP VO0480JFDGT", "scsi_revision": "HPD2"}, "32768 power-on hours"),
        ({"scsi_model_name": "HP VO0480JFDGT", "scsi_revision": "HPD8"}, ""),
        ({"scsi_model_name": "SanDisk LT0200WM", "scsi_revision": "P405"}, "40000 power-on hours"),
        ({"model_name": "Samsung SSD 980 PRO 2TB", "firmware_version": "3B2QGXA7"}, "5B2QGXA7"),
        ({"model_name": "Samsung SSD 990 PRO 2TB", "firmware_version": "4B2QJXD7"}, ""),
        ({"model_name": "SAMSUNG MZQL2960HCJR-00A07", "firmware_version": "GDC5502Q"}, "error mode"),
        ({"model_name": "M4-CT256M4SSD2", "firmware_version": "0009"}, "5184"),
        ({"model_name": "M4-CT256M4SSD2", "firmware_version": "070H"}, ""),
        ({"model_name": 7, "firmware_version": ["E2MU200"]}, ""),
    ],
)
def test_known_firmware_fault_is_a_warning_with_its_remedy(report, reason):
    result = judge("smart", record_smart(json.dumps({"smart_status": {"passed": True}, **report})))
    assert result.outcome == ("warn" if reason else "pass")
    assert reason in result.reason


def test_firmware_faults_have_a_source_and_a_pattern_that_fits():
    faults = load_firmware_faults()
    assert all(fault.source and fault.date and fault.fault and fault.remedy for fault in faults)
    assert all(re.compile(fault.model) and re.compile(fault.firmware) for fault in faults)
    assert all(fault.wrong_counter in {"", *ATA_COUNTERS} for fault in faults)


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

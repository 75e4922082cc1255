"""Test the judgement of nvidia-smi's reports: recorded ones, and each way in which a report can fail to show health."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.checks.gpu_nvidia import read as nvidia_smi
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded/smi"
CASES = yaml.safe_load((RECORDED / "index.yaml").read_text())
H100 = (RECORDED / "h100-idle-v13.xml").read_text()
T4 = (RECORDED / "telegraf-tesla-t4.xml").read_text()
ERROR_TEXTS = ["N/A", "[N/A]", "ERR!", "[Unknown Error]", "Unknown Error", "", "No data", "1,024", None]


def judge(xml, *buses):
    record = {"name": "gpu_nvidia", "status": "ran", "raw": {"on_bus": list(buses), "xml": {"text": xml}}}
    return judge_check(record, select_thresholds("gpu_server"), "", False)


def set_field(xml, name, text, section=""):
    """Return a report with one field changed, or removed; the first one in a section."""
    head, mark, tail = xml.partition(f"<{section}>") if section else ("", "", xml)
    field = "" if text is None else f"<{name}>{text}</{name}>"
    changed, count = re.subn(f"<{name}>[^<]*</{name}>", field, tail, count=1)
    assert count == 1, name
    return head + mark + changed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_recorded_report_is_read_and_is_not_a_fault(case):
    content = (RECORDED / case["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == case["sha256"]
    assert case["origin"]
    assert case["licence"]
    xml = content.decode()
    report = nvidia_smi.parse_nvidia_smi_report(xml)
    gpu = report.gpus[0]
    assert (report.schema, [gpu.model, gpu.bus_id, gpu.memory_mib]) == (case["schema"], case["gpu"])
    readings = extract_check_metrics("gpu_nvidia", {"xml": {"text": xml}})
    assert readings.metrics == case["metrics"]
    assert sorted(readings.not_applicable) == case["not_applicable"]
    result = judge(xml)
    assert (result.outcome, result.reason) == (case["outcome"], case.get("reason", ""))
    assert result.outcome != "fail"


def test_corpus_has_no_unlisted_file():
    assert {path.name for path in RECORDED.glob("*.xml")} == {case["file"] for case in CASES}


# A field, its section, and the metric that must then be missing.
REQUIRED_ON_H100 = [
    ("sram_uncorrectable_parity", "volatile", "ecc_uncorrected"),
    ("dram_uncorrectable", "volatile", "ecc_uncorrected"),
    ("current_ecc", "", "ecc_disabled"),
    ("remapped_row_pending", "", "remap_pending"),
    ("remapped_row_failure", "", "remap_failed"),
    ("clocks_event_reason_hw_slowdown", "", "hardware_slowdown"),
    ("gpu_temp", "", "thermal_margin_c"),
]


@pytest.mark.parametrize("text", ERROR_TEXTS)
@pytest.mark.parametrize(("name", "section", "metric"), REQUIRED_ON_H100)
def test_unreadable_field_of_a_server_card_is_never_a_pass(name, section, metric, text):
    if text is None and section == "volatile":
        # Drivers differ in which counters they have: only a missing section shows that none was read.
        xml = re.sub("<ecc_errors>.*?</ecc_errors>", "", H100, flags=re.DOTALL)
    else:
        xml = set_field(H100, name, text, section)
    result = judge(xml)
    assert result.outcome == "not_run"
    assert f"{metric} was not measured" in result.reason


@pytest.mark.parametrize("text", ["N/A", "ERR!", "[Unknown Error]", "Unknown"])
def test_unreadable_recovery_action_is_never_a_pass(text):
    assert judge(set_field(H100, "gpu_recovery_action", text)).outcome == "not_run"


def test_driver_without_recovery_actions_passes():
    assert judge(set_field(H100, "gpu_recovery_action", None)).outcome == "pass"


@pytest.mark.parametrize("section", ["remapped_rows", "clocks_event_reasons", "temperature"])
def test_missing_section_of_a_server_card_is_never_a_pass(section):
    xml = re.sub(f"<{section}>.*?</{section}>", "", H100, flags=re.DOTALL)
    assert judge(xml).outcome == "not_run"


@pytest.mark.parametrize("text", ERROR_TEXTS)
def test_unreadable_page_retirement_of_an_older_card_is_never_a_pass(text):
    assert judge(set_field(T4, "pending_retirement", text)).outcome == ("pass" if text is None else "not_run")
    xml = set_field(T4, "pending_blacklist", None)
    assert judge(set_field(xml, "pending_retirement", text)).outcome == "not_run"


@pytest.mark.parametrize(
    ("name", "text", "section", "meaning"),
    [
        ("sram_uncorrectable_parity", "1", "volatile", "uncorrected ECC errors"),
        ("dram_uncorrectable", "3.0", "volatile", "uncorrected ECC errors"),
        ("sram_threshold_exceeded", "Yes", "", "exceeded the card's threshold"),
        ("unrepairable_memory", "Yes", "", "cannot be repaired"),
        ("channel_repair_pending", "Yes", "", "waits for a reset"),
        ("tpc_repair_pending", "Yes", "", "waits for a reset"),
        ("remapped_row_pending", "Yes", "", "row remap waits"),
        ("remapped_row_failure", "Yes", "", "could not be remapped"),
        ("pending_retirement", "Yes", "", "pages wait for a reset"),
        ("gpu_recovery_action", "Reset", "", "asks for a reset"),
        ("gpu_recovery_action", "Reboot", "", "asks for a reset"),
        ("gpu_recovery_action", "Drain P2P", "", "asks for a reset"),
        ("gpu_recovery_action", "Drain and Reset", "", "asks for a reset"),
        ("serial", "GPU requires reset", "", "a GPU requires a reset"),
        ("gpu_temp", "[GPU requires reset]", "", "a GPU requires a reset"),
        ("fan_speed", "[GPU is lost]", "", "a GPU is lost"),
    ],
)
def test_fault_in_a_report_is_a_fail(name, text, section, meaning):
    result = judge(set_field(H100, name, text, section))
    assert result.outcome == "fail"
    assert meaning in result.reason


def test_fault_counts_where_another_field_is_unreadable():
    xml = set_field(set_field(H100, "dram_uncorrectable", "2", "volatile"), "gpu_temp", "ERR!")
    assert judge(xml).outcome == "fail"


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        ("current_ecc", "Disabled", "ECC is disabled"),
        ("clocks_event_reason_hw_slowdown", "Active", "slows a GPU down"),
        ("clocks_event_reason_hw_thermal_slowdown", "Active", "slows a GPU down"),
        ("clocks_event_reason_hw_power_brake_slowdown", "Active", "slows a GPU down"),
        ("gpu_temp_tlimit", "-2 C", "slowdown temperature"),
    ],
)
def test_warning_in_a_report(name, text, meaning):
    result = judge(set_field(H100, name, text))
    assert result.outcome == "warn"
    assert meaning in result.reason


def test_idle_link_is_never_a_fault():
    xml = set_field(set_field(H100, "current_link_width", "8x"), "current_link_gen", "1")
    assert judge(xml).outcome == "pass"


def test_seven_of_eight_gpus_are_a_fault():
    element = re.search(r"<gpu .*</gpu>", H100, re.DOTALL)[0]
    seven = H100.replace(element, element * 7)
    buses = [f"0000:{at:02x}:00.0" for at in range(8)]
    assert judge(seven, *buses).outcome == "fail"
    assert judge(H100.replace(element, element * 8), *buses).outcome == "pass"


@pytest.mark.parametrize("doctype", ["nvsmi_device_v14.dtd", "nvsmi_device_v1300.dtd", "other.dtd"])
def test_unknown_schema_is_not_run(doctype):
    result = judge(H100.replace("nvsmi_device_v13.dtd", doctype))
    assert result.outcome == "not_run"
    assert "unknown schema" in result.reason


def test_report_that_describes_fewer_gpus_than_it_counts_is_not_run():
    result = judge(set_field(H100, "attached_gpus", "2"))
    assert (result.outcome, "counts 2 GPUs and describes 1" in result.reason) == ("not_run", True)


def test_report_of_only_na_is_not_run():
    xml = re.sub(r">[^<\s][^<]*</(?!product_|uuid|pci_bus_id|current_ecc)", ">N/A</", H100)
    assert judge(xml).outcome == "not_run"

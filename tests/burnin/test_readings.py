"""Test the metrics that are read from a check's raw record."""

from __future__ import annotations

import pytest

from gpufleet.burnin.checks.gpu_nvidia import read as nvidia_smi
from gpufleet.burnin.evidence import CheckReadings, count_missing, to_finite_number
from gpufleet.burnin.readings import extract_check_metrics


def test_record_of_an_unknown_check_has_no_metrics():
    for name in ("unheard_of", "../cpu", "", "__init__"):
        assert extract_check_metrics(name, {"a": 1}) == CheckReadings()


def test_each_throttle_flag_is_a_metric():
    readings_found = extract_check_metrics("pi_throttled", {"text": "throttled=0x80050005"})
    # https://www.raspberrypi.com/documentation/computers/os.html#get_throttled: bits 0, 2, 16, 18; 31 means nothing
    assert {name for name, value in readings_found.metrics.items() if value} == {
        "undervoltage_now", "throttled_now", "undervoltage_since_boot", "throttled_since_boot", "undocumented_bits",
    }  # fmt: skip
    assert len(readings_found.metrics) == 9
    assert (readings_found.display_value, readings_found.unit) == ("0x80050005", "flags")


@pytest.mark.parametrize(
    ("changed", "metrics"),
    [
        ({}, {"gpus_missing": 0.0}),
        ({"expect_gpus": 3}, {"gpus_missing": 1.0}),
        ({"on_bus": ["a", "b", "c", "d"]}, {"gpus_missing": 2.0}),
        ({"expect_gpus": 3, "on_bus": ["a"] * 4}, {"gpus_missing": 2.0}),
    ],
)
def test_gpus_are_compared_with_the_pci_bus_and_the_declared_number(tool_output, changed, metrics):
    readings_found = extract_check_metrics(
        "gpu_nvidia", {"xml": {"text": tool_output("nvidia-smi-h100-healthy.xml")}, **changed}
    )
    assert readings_found.metrics["gpus_missing"] == metrics["gpus_missing"]
    assert (readings_found.display_value, readings_found.unit) == (2.0, "GPUs")
    assert readings_found.metrics["hardware_slowdown"] == 0


def test_report_without_gpus_counts_one_missing():
    assert extract_check_metrics("gpu_nvidia", {"xml": {"text": "<nvidia_smi_log/>"}}).metrics == {
        "gpus_missing": 1.0
    }


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (-2.5, -2.5), (0, 0.0), (True, None), ("1", None), (None, None), (float("nan"), None),
     (float("inf"), None), (1e18, None), (9.9e17, 9.9e17), (10**400, None)],
)  # fmt: skip
def test_only_finite_numbers_are_measurements(value, number):
    assert to_finite_number(value) == number


def test_more_gpus_than_declared_count_as_none_missing():
    assert [count_missing(4.0, readings_found) for readings_found in (3.0, 4.0, 5.0, None)] == [
        1.0,
        0.0,
        0.0,
        None,
    ]
    assert count_missing(None, 3.0) is count_missing(0.0, 3.0) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("16x", 16), ("81559 MiB", 81559), ("1234567890123", None), ("52 C", 52), ("0", 0), ("3.0", 3), ("-2 C", -2),
     ("N/A", None), ("[N/A]", None), ("1,024", None), ("ERR!", None), ("1e3", None), ("[Unknown Error]", None)],
)  # fmt: skip
def test_number_of_an_xml_element_is_read(text, number):
    root = nvidia_smi.decode_xml(f"<a><b>{text}</b></a>", "x")
    assert nvidia_smi.read_number(root, "b") == number

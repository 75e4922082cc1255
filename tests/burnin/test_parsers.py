"""Test parsers of tool output: recorded, documented and truncated forms."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.burnin import pi
from gpufleet.burnin.checks.gpu_nvidia import measure as gpu
from gpufleet.burnin.checks.gpu_nvidia import read as nvidia_smi


def test_published_throttle_values_are_decoded(tool_output):
    for line in tool_output("vcgencmd.txt").splitlines():
        answer, *flags = line.split()
        decoded = pi.decode_throttled_flags(pi.parse_throttled_bits(answer))
        assert sorted(name for name, is_set in decoded.items() if is_set) == sorted(flags)


@pytest.mark.parametrize(
    "text", ["", "throttled=", "throttled=0x", "throttled=5", "throttled=0x5g", "x throttled=0x0"]
)
def test_invalid_vcgencmd_output_gives_no_flags(text):
    assert pi.parse_throttled_bits(text) is None


@given(st.integers(0, 0xFFFFFFFF))
def test_every_throttle_bit_is_decoded_or_counted_as_undocumented(bits):
    flags = pi.decode_throttled_flags(bits)
    named = sum(flags[name] << bit for bit, name in pi.FLAGS.items())
    assert (bits ^ named).bit_count() == pi.count_undocumented_bits(bits)


@pytest.mark.parametrize(
    ("text", "celsius"), [("temp=52.1'C\n", 52.1), ("temp=-3'C", -3.0), ("temp=nan'C", None), ("52.1", None)]
)
def test_temperature_is_parsed(text, celsius):
    assert pi.parse_vcgencmd_celsius(text) == celsius


@pytest.mark.parametrize(
    ("text", "speed"),
    [("5.0 GT/s PCIe", 5.0), ("8 GT/s", 8.0), ("2.5 GT/s PCIe", 2.5), ("Unknown", None), (None, None)],
)
def test_link_speeds_of_old_and_new_kernels_are_parsed(text, speed):
    assert pi.parse_pcie_link_gt_per_s(text) == speed


@pytest.mark.parametrize(
    ("text", "lanes"), [("1", 1), ("16", 16), ("0", None), ("255", None), ("x4", None), (4, None)]
)
def test_link_width_is_parsed(text, lanes):
    assert pi.parse_pcie_link_lanes(text) == lanes


def test_nvidia_report_is_parsed(tool_output):
    first, second = nvidia_smi.parse_nvidia_smi_report(tool_output("nvidia-smi-h100-healthy.xml")).gpus
    assert (first.model, first.memory_mib, first.link_width) == ("NVIDIA H100 80GB HBM3", 81559, 16)
    assert (first.bus_id, second.bus_id) == ("00000000:18:00.0", "00000000:2A:00.0")
    assert (first.readings["ecc_uncorrected"], first.readings["remap_pending"]) == (0, 0)


def test_report_of_older_nvidia_drivers_is_parsed(tool_output):
    (gpu_seen,) = nvidia_smi.parse_nvidia_smi_report(tool_output("nvidia-smi-v11-slowdown.xml")).gpus
    assert (gpu_seen.readings["hardware_slowdown"], gpu_seen.readings["ecc_uncorrected"]) == (1, 0)


@settings(max_examples=200)
@given(data=st.data())
def test_truncated_report_is_refused(tool_output, data):
    text = tool_output("nvidia-smi-h100-healthy.xml").rstrip()
    cut = data.draw(st.integers(0, len(text) - 1))
    assert nvidia_smi.parse_nvidia_smi_report(text[:cut]) is None


@settings(max_examples=200)
@given(data=st.data())
def test_damaged_report_never_raises(tool_output, data):
    text = tool_output("nvidia-smi-h100-faulty.xml")
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.text(max_size=8)) + text[at + data.draw(st.integers(0, 40)) :]
    report = nvidia_smi.parse_nvidia_smi_report(damaged)
    assert report is None or isinstance(report, nvidia_smi.NvidiaSmiReport)


def test_xml_entities_are_refused():
    assert (
        nvidia_smi.parse_nvidia_smi_report(
            '<!DOCTYPE x [<!ENTITY a "aa">]><nvidia_smi_log>&a;</nvidia_smi_log>'
        )
        is None
    )


def test_compressed_text_is_decompressed(tool_output):
    report = tool_output("nvidia-smi-h100-healthy.xml") * 20
    assert "zlib_base64" in gpu.compress_long_text(report)
    assert nvidia_smi.decompress_text(gpu.compress_long_text(report)) == report
    assert nvidia_smi.decompress_text(gpu.compress_long_text("short")) == "short"


def test_parsed_values_survive_the_removal_of_unused_sections(tool_output):
    text = tool_output("nvidia-smi-h100-healthy.xml")
    assert "supported_clocks" not in gpu.remove_unused_smi_sections(text)
    assert nvidia_smi.parse_nvidia_smi_report(
        gpu.remove_unused_smi_sections(text)
    ) == nvidia_smi.parse_nvidia_smi_report(text)


@pytest.mark.parametrize(
    "raw", [None, {}, {"zlib_base64": "%%%"}, {"zlib_base64": "aGVsbG8="}, {"text": 5}, [1]]
)
def test_invalid_compressed_text_is_none(raw):
    assert nvidia_smi.decompress_text(raw) is None


def test_decompression_is_bounded():
    bomb = base64.b64encode(zlib.compress(b" " * (nvidia_smi.UNPACKED_LIMIT * 4))).decode()
    assert len(nvidia_smi.decompress_text({"zlib_base64": bomb})) == nvidia_smi.UNPACKED_LIMIT

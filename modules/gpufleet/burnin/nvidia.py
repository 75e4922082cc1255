"""Read NVIDIA's raw outputs: nvidia-smi's XML report and XID lines of the kernel log."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass
from functools import cache
from xml.etree.ElementTree import Element

from gpufleet.boundary import DocumentLimits, decode_xml, read_packaged_rows
from gpufleet.errors import InputError

# Nothing that nvidia-smi prints comes near this; a packed record that unfolds beyond it is not one.
UNPACKED_LIMIT = 8 << 20
REPORT = DocumentLimits(bytes=UNPACKED_LIMIT, depth=32, values=100_000)  # 16 GPUs make some 10,000 elements


@dataclass(frozen=True)
class NvidiaGpuReport:
    """One GPU of an nvidia-smi report; None where the report says N/A or nothing."""

    model: str
    uuid: str
    bus_id: str
    memory_mib: int | None
    ecc_uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None
    link_width: int | None
    link_width_max: int | None
    temperature_c: int | None
    slowdown_c: int | None
    hardware_slowdown: bool | None


def decompress_text(text_record: object) -> str | None:
    """Return a text that the agent kept, packed or not; None when it is neither."""
    if not isinstance(text_record, dict):
        return None
    if isinstance(text_record.get("text"), str):
        return str(text_record["text"])
    try:
        packed = base64.b64decode(text_record["zlib_base64"], validate=True)
        return zlib.decompressobj().decompress(packed, UNPACKED_LIMIT).decode("utf-8", "replace")
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
        return None


def parse_nvidia_smi_report(xml: str) -> list[NvidiaGpuReport] | None:
    """Return the GPUs of `nvidia-smi -q -x`, or None when the text is not such a report."""
    try:
        root = decode_xml(xml, "nvidia-smi", REPORT)
    except InputError:
        return None
    return [parse_gpu_element(node) for node in root.iter("gpu")] if root.tag == "nvidia_smi_log" else None


def parse_gpu_element(gpu_element: Element) -> NvidiaGpuReport:
    """Read one GPU's element."""
    return NvidiaGpuReport(
        model=read_element_text(gpu_element, "product_name") or "",
        uuid=read_element_text(gpu_element, "uuid") or "",
        bus_id=read_element_text(gpu_element, "pci/pci_bus_id") or gpu_element.get("id") or "",
        memory_mib=read_element_integer(gpu_element, "fb_memory_usage/total"),
        ecc_uncorrected=sum_uncorrected_ecc_errors(gpu_element),
        remap_pending=read_element_flag(gpu_element, "remapped_rows/remapped_row_pending"),
        remap_failed=read_element_flag(gpu_element, "remapped_rows/remapped_row_failure"),
        link_width=read_element_integer(gpu_element, "pci/pci_gpu_link_info/link_widths/current_link_width"),
        link_width_max=read_element_integer(gpu_element, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        temperature_c=read_element_integer(gpu_element, "temperature/gpu_temp"),
        slowdown_c=read_element_integer(gpu_element, "temperature/gpu_temp_slow_threshold"),
        hardware_slowdown=has_hardware_slowdown(gpu_element),
    )


def read_element_text(element: Element, path: str) -> str | None:
    """Return an element's text; None when it is missing or N/A."""
    value = (element.findtext(path) or "").strip()
    return value if value and value not in {"N/A", "[N/A]", "Not Found"} else None


def read_element_integer(element: Element, path: str) -> int | None:
    """Return the leading integer of ``16x``, ``81559 MiB`` or ``52 C``."""
    match = re.match(r"(\d{1,12})(?:\s*[A-Za-z]\w*)?$", read_element_text(element, path) or "")
    return int(match[1]) if match else None


def read_element_flag(element: Element, path: str) -> bool | None:
    """Return Yes/Active as True, No/Not Active as False."""
    return {"Yes": True, "Active": True, "No": False, "Not Active": False}.get(
        read_element_text(element, path) or ""
    )


def sum_uncorrected_ecc_errors(gpu_element: Element) -> int | None:
    """Sum volatile uncorrected errors; drivers name them by cause, older ones only in total."""
    counts = [
        read_element_integer(element, ".")
        for element in gpu_element.findall("ecc_errors/volatile/*")
        if "uncorrectable" in element.tag
    ]
    legacy = read_element_integer(gpu_element, "ecc_errors/volatile/double_bit/total")
    known = [count for count in (*counts, legacy) if count is not None]
    return sum(known) if known else None


def has_hardware_slowdown(gpu_element: Element) -> bool | None:
    """Return whether the hardware itself slows the GPU; the section was renamed in newer drivers."""
    states = [
        read_element_flag(gpu_element, f"{section}/{prefix}_hw_{cause}")
        for section, prefix in (
            ("clocks_event_reasons", "clocks_event_reason"),
            ("clocks_throttle_reasons", "clocks_throttle_reason"),
        )
        for cause in ("slowdown", "thermal_slowdown", "power_brake_slowdown")
    ]
    known = [state for state in states if state is not None]
    return any(known) if known else None


@cache
def load_xid_classes() -> dict[int, str]:
    """Return what each XID code means for the node: application, fatal or ignore."""
    return {
        row.get_integer("code"): row["class"] for row in read_packaged_rows("gpufleet.burnin", "data/xid.csv")
    }


def parse_xid_codes(log_lines: list[str]) -> list[int]:
    """Return the XID codes in kernel log lines, in order."""
    matches = (re.search(r"NVRM: Xid \([^)]*\): (\d{1,6})\b", line) for line in log_lines)
    return [int(match[1]) for match in matches if match]


def count_xid_classes(codes: list[int]) -> dict[str, int]:
    """Count codes by class; one that the table does not know counts as fatal until someone has looked."""
    classes = [load_xid_classes().get(code, "fatal") for code in codes]
    return {name: classes.count(name) for name in ("fatal", "application", "ignore")}

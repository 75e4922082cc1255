"""Read `nvidia-smi -q -x`: what must be readable on which card, and what each field says of its health.

A field that is N/A, ERR!, Unknown Error or missing is never a zero. It "does not apply" only where this kind of card
has no such counter; otherwise it is unknown, and the check was not run.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from xml.etree.ElementTree import Element

from gpufleet.boundary import DocumentLimits, decode_xml
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    count_missing_gpus,
    find_lowest,
)
from gpufleet.errors import InputError

# Nothing that nvidia-smi prints comes near this; a packed record that unfolds beyond it is not one.
UNPACKED_LIMIT = 8 << 20
REPORT = DocumentLimits(bytes=UNPACKED_LIMIT, depth=32, values=100_000)  # 16 GPUs make some 10,000 elements
# The document types that recorded reports have; drivers before 450 name none (tests/cases/burnin/recorded/smi).
KNOWN_SCHEMAS = frozenset({"9", "10", "11", "12", "13", ""})
ABSENT_TEXTS = frozenset({"", "N/A", "[N/A]", "Not Supported", "[Not Supported]", "Not Found"})
# NVML_ERROR_RESET_REQUIRED and NVML_ERROR_GPU_IS_LOST, as nvidia-smi prints them in place of a value.
LOST_TEXTS = ("GPU requires reset", "GPU is lost")
# Cards of servers have ECC and row remapping (page retirement before Ampere); other brands may have neither.
SERVER_BRANDS = frozenset({"NVIDIA", "Tesla"})
WITHOUT_ROW_REMAPPING = frozenset({"Kepler", "Maxwell", "Pascal", "Volta", "Turing"})

PENDING_RETIREMENT = ("pending_retirement", "pending_blacklist")


@dataclass(frozen=True)
class NvidiaGpuReport:
    """One GPU of a report, with its readings by metric."""

    model: str
    uuid: str
    bus_id: str
    memory_mib: float | None
    link_width: float | None
    link_width_max: float | None
    readings: dict[str, Reading]
    serial: str = ""


@dataclass(frozen=True)
class NvidiaSmiReport:
    """A whole report; ``schema`` is the number in the document type, empty for none."""

    schema: str
    attached: float | None
    gpus: tuple[NvidiaGpuReport, ...]


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


@lru_cache(maxsize=2)  # two checks read the report of one node
def parse_nvidia_smi_report(xml: str) -> NvidiaSmiReport | None:
    """Return the report of `nvidia-smi -q -x`, or None when the text is not one."""
    try:
        root = decode_xml(xml, "nvidia-smi", REPORT)
    except InputError:
        return None
    if root.tag != "nvidia_smi_log":
        return None
    doctype = re.search(r"<!DOCTYPE\s+nvidia_smi_log\s+SYSTEM\s+[\"']([^\"']{0,80})[\"']", xml[:4096])
    version = re.fullmatch(r"nvsmi_device_v(\d{1,4})\.dtd", doctype[1]) if doctype else None
    return NvidiaSmiReport(
        schema=version[1] if version else doctype[1] if doctype else "",
        attached=read_number(root, "attached_gpus"),
        gpus=tuple(parse_gpu_element(node) for node in root.iter("gpu")),
    )


def parse_gpu_element(gpu: Element) -> NvidiaGpuReport:
    """Read one GPU's element."""
    link = "pci/pci_gpu_link_info/link_widths"
    return NvidiaGpuReport(
        model=read_text(gpu, "product_name"),
        uuid=read_text(gpu, "uuid"),
        bus_id=read_text(gpu, "pci/pci_bus_id") or gpu.get("id") or "",
        memory_mib=read_number(gpu, "fb_memory_usage/total"),
        link_width=read_number(gpu, f"{link}/current_link_width"),
        link_width_max=read_number(gpu, f"{link}/max_link_width"),
        readings={name: read(gpu) for name, read in READERS.items()},
        serial=read_text(gpu, "serial"),
    )


def read_text(element: Element, path: str) -> str:
    """Return an element's text; empty when it is missing or N/A."""
    value = (element.findtext(path) or "").strip()
    return "" if value in ABSENT_TEXTS else value


def read_number(element: Element, path: str) -> float | None:
    """Return the number of ``16x``, ``81559 MiB``, ``-2 C`` or ``3.0``; None for anything else."""
    match = re.fullmatch(r"(-?\d{1,12}(?:\.\d{1,6})?)(?:\s*[A-Za-z]{1,3})?", read_text(element, path))
    return float(match[1]) if match else None


def read_flag(element: Element, path: str) -> bool | None:
    """Return Yes/Active as True, No/Not Active as False."""
    return {"Yes": True, "Active": True, "No": False, "Not Active": False}.get(read_text(element, path))


def quote_field(gpu: Element, path: str) -> str:
    """Return the reason why a field is unknown."""
    found = gpu.find(path)
    text = "is missing" if found is None else f"is {(found.text or '').strip()[:40]!r}"
    return f"{path.rpartition('/')[2]} {text} on {gpu.get('id') or 'a GPU'}"


def is_server_card(gpu: Element) -> bool:
    """Return whether the card's brand promises ECC counters."""
    return read_text(gpu, "product_brand") in SERVER_BRANDS


def is_absent(gpu: Element, path: str) -> bool:
    """Return whether a field is missing or N/A, and not an error's text."""
    element = gpu.find(path)
    return element is None or (not len(element) and (element.text or "").strip() in ABSENT_TEXTS)


def read_required_flag(gpu: Element, path: str, *, is_required: bool) -> Reading:
    """Return a flag as 0 or 1; an absent one does not apply unless this card must have it."""
    state = read_flag(gpu, path)
    if state is not None:
        return float(state)
    if not is_required and is_absent(gpu, path):
        return NOT_APPLICABLE
    return quote_field(gpu, path)


def count_lost(gpu: Element) -> Reading:
    """Return 1 for a GPU that answers only that it needs a reset or is gone."""
    texts = {(element.text or "").strip().strip("[]") for element in gpu.iter()}
    return float(any(text.startswith(LOST_TEXTS) for text in texts))


def read_ecc_errors(gpu: Element) -> Reading:
    """Sum uncorrected errors since the driver loaded; drivers name them by cause, older ones by their bits."""
    mode = read_text(gpu, "ecc_mode/current_ecc")
    elements = [node for node in gpu.findall("ecc_errors/volatile/*") if "uncorrectable" in node.tag]
    counts = [read_number(node, ".") for node in elements]
    if not elements:
        elements = gpu.findall("ecc_errors/volatile/double_bit/total")
        counts = [read_number(node, ".") for node in elements]
    known = [count for count in counts if count is not None and count >= 0]
    if any(known) or (known and len(known) == len(counts)):
        return sum(known)
    if mode == "Disabled" or (
        mode != "Enabled" and not is_server_card(gpu) and is_absent(gpu, "ecc_mode/current_ecc")
    ):
        return NOT_APPLICABLE
    return quote_field(gpu, f"ecc_errors/volatile/{elements[0].tag}" if elements else "ecc_errors/volatile")


def read_ecc_disabled(gpu: Element) -> Reading:
    """Return 1 for a server card whose ECC is off: its memory errors would go unseen."""
    mode = read_text(gpu, "ecc_mode/current_ecc")
    if not is_server_card(gpu):
        return NOT_APPLICABLE
    return (
        float(mode == "Disabled")
        if mode in {"Enabled", "Disabled"}
        else quote_field(gpu, "ecc_mode/current_ecc")
    )


def needs_row_remapping(gpu: Element) -> bool:
    """Return whether the card must report row remaps; where no architecture is named, retired pages do."""
    architecture = read_text(gpu, "product_architecture")
    if not is_server_card(gpu) or architecture in WITHOUT_ROW_REMAPPING:
        return False
    pending = (read_flag(gpu, f"retired_pages/{name}") for name in PENDING_RETIREMENT)
    return bool(architecture) or all(state is None for state in pending)


def read_pending_retirement(gpu: Element) -> Reading:
    """Return 1 if pages wait to be retired; the field's older name is pending_blacklist."""
    path = next(
        (
            f"retired_pages/{name}"
            for name in PENDING_RETIREMENT
            if gpu.find(f"retired_pages/{name}") is not None
        ),
        f"retired_pages/{PENDING_RETIREMENT[0]}",
    )
    is_required = is_server_card(gpu) and not needs_row_remapping(gpu)
    return read_required_flag(gpu, path, is_required=is_required)


def read_recovery_action(gpu: Element) -> Reading:
    """Return 1 if the driver asks for a reset, a reboot or a drain; drivers before 565 have no such field."""
    path = "gpu_recovery_action"
    action = read_text(gpu, path)
    if re.fullmatch(r"None|[A-Z][A-Za-z0-9 ]{2,30}", action) and not action.startswith(
        ("Unknown", *LOST_TEXTS)
    ):
        return float(action != "None")
    if is_absent(gpu, path) and (gpu.find(path) is None or not is_server_card(gpu)):
        return NOT_APPLICABLE
    return quote_field(gpu, path)


def read_hardware_slowdown(gpu: Element) -> Reading:
    """Return 1 if the hardware itself slows the GPU; the section was renamed in newer drivers."""
    section = "clocks_event_reasons"
    if gpu.find(section) is None:
        section = "clocks_throttle_reasons"
    path = f"{section}/{section[:-1]}_hw_"
    states = [
        read_required_flag(gpu, f"{path}{cause}slowdown", is_required=not cause)
        for cause in ("", "thermal_", "power_brake_")
    ]
    total = add_up_counts(states)
    return min(total, 1.0) if isinstance(total, float) else total


def read_thermal_margin(gpu: Element) -> Reading:
    """Return the degrees left until the GPU slows down; newer drivers count down to a limit."""
    celsius = read_number(gpu, "temperature/gpu_temp")
    if celsius is None:
        return quote_field(gpu, "temperature/gpu_temp")
    slowdown = read_number(gpu, "temperature/gpu_temp_slow_threshold")
    if slowdown is not None:
        return slowdown - celsius
    left, end = (
        read_number(gpu, f"temperature/gpu_temp_{name}") for name in ("tlimit", "slow_tlimit_threshold")
    )
    if left is not None and end is not None:
        return left - end
    paths = ("gpu_temp_slow_threshold", "gpu_temp_tlimit", "gpu_temp_slow_tlimit_threshold")
    broken = (f"temperature/{name}" for name in paths if not is_absent(gpu, f"temperature/{name}"))
    return next((quote_field(gpu, path) for path in broken), NOT_APPLICABLE)


READERS: dict[str, Callable[[Element], Reading]] = {
    "gpus_lost": count_lost,
    "ecc_uncorrected": read_ecc_errors,
    "ecc_disabled": read_ecc_disabled,
    "sram_threshold_exceeded": lambda gpu: read_required_flag(
        gpu, "ecc_errors/aggregate/sram_threshold_exceeded", is_required=False
    ),
    "unrepairable_memory": lambda gpu: read_required_flag(
        gpu, "ecc_errors/unrepairable_memory", is_required=False
    ),
    "repair_pending": lambda gpu: add_up_counts(
        read_required_flag(gpu, f"ecc_errors/{unit}_repair_pending", is_required=False)
        for unit in ("channel", "tpc")
    ),
    "remap_pending": lambda gpu: read_required_flag(
        gpu, "remapped_rows/remapped_row_pending", is_required=needs_row_remapping(gpu)
    ),
    "remap_failed": lambda gpu: read_required_flag(
        gpu, "remapped_rows/remapped_row_failure", is_required=needs_row_remapping(gpu)
    ),
    "retirement_pending": read_pending_retirement,
    "recovery_action": read_recovery_action,
    "hardware_slowdown": read_hardware_slowdown,
    "thermal_margin_c": read_thermal_margin,
}


def read_record(raw: Raw) -> CheckReadings:
    """Count and health of NVIDIA GPUs. The link of an idle GPU says nothing: gpu_copy judges it under load."""
    xml = decompress_text(raw.get("xml"))
    report = parse_nvidia_smi_report(xml) if xml is not None else None
    if report is None:
        return CheckReadings(unreadable="the output is not a report of nvidia-smi -q -x")
    if report.schema not in KNOWN_SCHEMAS:
        return CheckReadings(unreadable=f"nvidia-smi's report has an unknown schema: {report.schema[:40]!r}")
    readings: dict[str, Reading] = {
        name: (find_lowest if name == "thermal_margin_c" else add_up_counts)(
            gpu.readings[name] for gpu in report.gpus
        )
        for name in READERS
    }
    readings["gpus_missing"] = count_missing_gpus(raw, len(report.gpus))
    if not readings["gpus_missing"] and (report.attached or 0.0) > len(report.gpus):
        readings["gpus_missing"] = (
            f"the report counts {report.attached:g} GPUs and describes {len(report.gpus)}"
        )
    return build_check_readings(readings, float(len(report.gpus)), "GPUs")

"""Read `nvidia-smi -q -x`: what must be readable on which card, and what each field says of its health.

A field that is N/A, ERR!, Unknown Error or missing is never a zero. It "does not apply" only where this kind of card
has no such counter; otherwise it is unknown, and the check was not run.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from xml.etree.ElementTree import Element

from gpufleet.boundary import DocumentLimits, decode_xml
from gpufleet.burnin.checks.gpu_nvidia.counter import (
    compare_replay_rate,
    count_corrected_dram,
    count_corrected_sram,
    judge_uneven_replays,
)
from gpufleet.burnin.checks.gpu_nvidia.fabric import (
    describe_fabric,
    find_fabric_strangers,
    lacks_fabric,
    read_cluster,
    read_fabric_failed,
    read_fabric_limited,
)
from gpufleet.burnin.checks.gpu_nvidia.message import ToolMessage, explain_failure, find_messages
from gpufleet.burnin.checks.gpu_nvidia.nvlink import METRICS as LINK_METRICS
from gpufleet.burnin.checks.gpu_nvidia.nvlink import (
    LinkedModel,
    judge_links,
    match_links,
    parse_nvlink_status,
)
from gpufleet.burnin.checks.gpu_nvidia.smi_field import (
    is_absent,
    quote_field,
    read_flag,
    read_number,
    read_required_flag,
    read_text,
)
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    count_missing_gpus,
    find_highest,
    find_lowest,
    list_or_empty,
    to_finite_number,
)
from gpufleet.burnin.pcie_generation import count_replays_allowed_per_minute
from gpufleet.burnin.site_card import NO_CARDS, SiteCards, get_site_cards
from gpufleet.drivers import PciDevice
from gpufleet.drivers.data_file import GpuCard
from gpufleet.errors import InputError

# Nothing that nvidia-smi prints comes near this; a packed record that unfolds beyond it is not one.
UNPACKED_LIMIT = 8 << 20
REPORT = DocumentLimits(bytes=UNPACKED_LIMIT, depth=32, values=100_000)  # 16 GPUs make some 10,000 elements
# The document types that recorded reports have; drivers before 450 name none (tests/cases/burnin/recorded/smi).
KNOWN_SCHEMAS = frozenset({"9", "10", "11", "12", "13", ""})
# NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED, as nvidia-smi prints them in place of a value.
LOST_TEXT, RESET_TEXT = "GPU is lost", "GPU requires reset"
# What it prints in place of a value that the driver cannot read. No recorded report has one; a GPU that stopped
# answering has it in most places (NVIDIA/gpu-operator #559, NVIDIA/dcgm-exporter #319).
ERROR_TEXTS, MANY_ERRORS = ("Unknown Error", "ERR!"), 3
# Some drivers cannot read these of a card that works (papampi/nvOC_by_fullzero_Community_Release #19: GTX 1050 Ti).
OPTIONAL_SENSORS = re.compile(r"power|fan")
# Yes in either of these means an error from which only a reset recovers (nvidia-smi --help-query-gpu of 535 and 550).
RESET_FIELDS = ("gpu_reset_status/reset_required", "gpu_reset_status/drain_and_reset_recommended")
# GPUs that share the processor's memory: it has neither ECC counters nor row remapping of the GPU's. GB10 is in the
# table of cards too; its PCI id is not in every report, and Jetson's GPUs have none.
UNIFIED_MEMORY = re.compile(r"NVIDIA (GB10|Thor|Orin)\b.*|Orin \(nvgpu\).*")
MISSING = "gpus_missing"
MARKET = "market"  # column of drivers/data/cards.csv; set on the element of each GPU
SWITCHED = frozenset({"nvswitch", "nvlink5", "rack"})  # column fabric of drivers/data/cards.csv
SHARED = "shared"  # of the parameter expect_nvswitch
LEFT_TO_OWNER = ("fabric_failed", "fabric_limited", *LINK_METRICS)
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
    replays: float | None = None
    has_mig: bool = False
    is_switched: bool = False
    pcie_allowed: float = 0.0
    fabric_problem: str = ""
    recovery_action: str = ""
    error_values: int = 0
    cluster: str = ""
    lacks_fabric: bool = False
    details: dict[str, str] = field(default_factory=dict)


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
def parse_nvidia_smi_report(xml: str, cards: SiteCards = NO_CARDS) -> NvidiaSmiReport | None:
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
        gpus=tuple(parse_gpu_element(node, cards) for node in root.iter("gpu")),
    )


def parse_gpu_element(gpu: Element, cards: SiteCards) -> NvidiaGpuReport:
    """Read one GPU's element; its readers find the card's market as an attribute of it."""
    card = find_card(gpu, cards)
    gpu.set(MARKET, card.market if card else "")
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
        replays=read_number(gpu, "pci/replay_counter"),
        pcie_allowed=count_replays_allowed_per_minute(
            read_number(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
            read_number(gpu, f"{link}/max_link_width"),
        ),
        is_switched=card is not None and card.fabric in SWITCHED,
        has_mig=read_text(gpu, "mig_mode/current_mig") == "Enabled",
        fabric_problem=describe_fabric(gpu),
        recovery_action=read_text(gpu, "gpu_recovery_action"),
        error_values=count_error_values(gpu),
        cluster=read_cluster(gpu),
        lacks_fabric=lacks_fabric(gpu),
    )


def is_server_card(gpu: Element) -> bool:
    """Return whether the card's brand promises ECC counters, and its memory is its own."""
    return read_text(gpu, "product_brand") in SERVER_BRANDS and not has_unified_memory(gpu)


def find_card(gpu: Element, cards: SiteCards) -> GpuCard | None:
    """Return the card of the PCI id in the report, if the site's or the shipped table of cards has it."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})10[Dd][Ee]", read_text(gpu, "pci/pci_device_id"))
    return cards.find(PciDevice("", "10de", match[1].lower(), "", "")) if match else None


def has_unified_memory(gpu: Element) -> bool:
    """Return whether the GPU shares the processor's memory, by the table of cards or by its name."""
    if market := gpu.get(MARKET):
        return market == "embedded"
    return UNIFIED_MEMORY.fullmatch(read_text(gpu, "product_name")) is not None


def has_text(gpu: Element, start: str) -> bool:
    """Return whether any field of a GPU has an error's text in place of its value."""
    return any((element.text or "").strip().strip("[]").startswith(start) for element in gpu.iter())


def count_error_values(gpu: Element) -> int:
    """Return how many fields of a GPU have an error's text in place of their value, without fan and power."""
    return sum(
        (element.text or "").strip().strip("[]") in ERROR_TEXTS and not OPTIONAL_SENSORS.search(element.tag)
        for element in gpu.iter()
    )


def read_reset_required(gpu: Element) -> Reading:
    """Return 1 for a GPU that needs a reset: it answers so, or only errors, or its driver before 565 has a field."""
    flags = add_up_counts(read_required_flag(gpu, path, is_required=False) for path in RESET_FIELDS)
    if has_text(gpu, RESET_TEXT) or count_error_values(gpu) >= MANY_ERRORS:
        return 1.0
    return min(flags, 1.0) if isinstance(flags, float) else flags


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
        ("Unknown", LOST_TEXT, RESET_TEXT)
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
    "gpus_lost": lambda gpu: float(has_text(gpu, LOST_TEXT)),
    "reset_required": read_reset_required,
    "fabric_failed": read_fabric_failed,
    "fabric_limited": read_fabric_limited,
    "sram_corrected": count_corrected_sram,
    "dram_corrected": count_corrected_dram,
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


# Readings of several GPUs are added up, except these.
LOWEST = frozenset({"thermal_margin_c"})
HIGHEST = frozenset({"sram_corrected", "dram_corrected", "pcie_replays", "pcie_replay_excess"})


def merge_readings(name: str, readings: Sequence[Reading]) -> Reading:
    """Return the reading of all GPUs."""
    merge = find_lowest if name in LOWEST else find_highest if name in HIGHEST else add_up_counts
    return merge(readings)


def read_report(raw: Raw) -> NvidiaSmiReport | None:
    """Return the report of a record, with the readings that need more than one GPU's element."""
    xml = decompress_text(raw.get("xml"))
    report = parse_nvidia_smi_report(xml, get_site_cards(raw)) if xml is not None else None
    return None if report is None else replace(report, gpus=tuple(complete_gpus(raw, report.gpus)))


def complete_gpus(raw: Raw, gpus: Sequence[NvidiaGpuReport]) -> list[NvidiaGpuReport]:
    """Add NVLink, replays and messages to each GPU; a declared shared NVSwitch leaves the fabric to its owner."""
    is_shared = raw.get("expect_nvswitch") == SHARED
    links = match_links(
        parse_nvlink_status(decompress_text(raw.get("nvlink")) or ""), [gpu.uuid for gpu in gpus]
    )
    # Instances of MIG have no peers: the links of their GPU are not judged (NVIDIA/k8s-device-plugin #201).
    links = [None if gpu.has_mig else link for gpu, link in zip(gpus, links, strict=True)]
    declared = to_finite_number(raw.get("expect_nvlinks")) or None
    judged = judge_links(links, [LinkedModel(gpu.model, gpu.is_switched) for gpu in gpus], declared)
    uneven = judge_uneven_replays([gpu.replays for gpu in gpus])
    strangers = find_fabric_strangers([gpu.cluster for gpu in gpus])
    messages = [message for message in find_messages(raw) if message.rule.metric]
    completed = []
    for place, gpu in enumerate(gpus):
        own: dict[str, Reading] = {
            **gpu.readings,
            **judged[place],
            "pcie_replays": NOT_APPLICABLE if gpu.replays is None else gpu.replays,
            "pcie_replay_excess": compare_replay_rate(
                gpu.replays, gpu.pcie_allowed, to_finite_number(raw.get("uptime_s"))
            ),
            "pcie_replays_uneven": uneven[place],
            "inforom_corrupted": NOT_APPLICABLE,
        }
        details = dict.fromkeys(("fabric_failed", "fabric_limited"), gpu.fabric_problem)
        details["recovery_action"] = gpu.recovery_action
        if gpu.error_values >= MANY_ERRORS:
            details["reset_required"] = f"{gpu.error_values} values are errors"
        if link := links[place]:
            details["nvlinks_inactive"] = f"{len(link.rates)} links active"
        if place in strangers:
            own["fabric_failed"] = 1.0
            details["fabric_failed"] = "clusterUuid differs from that of the other GPUs"
        if gpu.lacks_fabric and len(gpus) > 1:
            own["fabric_limited"] = 1.0
            details["fabric_limited"] = "no state; look at the NVLink switch trays"
        if is_shared:
            own |= dict.fromkeys(LEFT_TO_OWNER, NOT_APPLICABLE)
        for message in messages:
            if is_same_gpu(message.address, gpu.bus_id):
                own[message.rule.metric] = 1.0
                details[message.rule.metric] = message.text
        completed.append(replace(gpu, readings=own, details=details))
    return completed


def is_same_gpu(address: str, bus_id: str) -> bool:
    """Return whether two texts are one PCI address; domains have four or eight digits."""
    return bool(address) and address.lower()[-12:] == bus_id.lower()[-12:]


def read_record(raw: Raw) -> CheckReadings:
    """Count and health of NVIDIA GPUs. The link of an idle GPU says nothing: gpu_copy judges it under load."""
    report = read_report(raw)
    if report is None:
        return read_messages(raw)
    if report.schema not in KNOWN_SCHEMAS:
        return CheckReadings(unreadable=f"nvidia-smi's report has an unknown schema: {report.schema[:40]!r}")
    names = dict.fromkeys([*READERS, *(name for gpu in report.gpus for name in gpu.readings)])
    readings: dict[str, Reading] = {
        name: merge_readings(name, [gpu.readings[name] for gpu in report.gpus]) for name in names
    }
    for name, reading in read_messages(raw).metrics.items():
        if not isinstance(readings.get(name), float) or not readings[name]:
            readings[name] = reading
    readings["gpus_missing"] = count_missing_gpus(raw, len(report.gpus))
    if not readings["gpus_missing"] and (report.attached or 0.0) > len(report.gpus):
        readings["gpus_missing"] = (
            f"the report counts {report.attached:g} GPUs and describes {len(report.gpus)}"
        )
    found = build_check_readings(readings, float(len(report.gpus)), "GPUs")
    return replace(found, details=collect_details(report))


def collect_details(report: NvidiaSmiReport) -> dict[str, str]:
    """Return for each metric what a person looks for, with the addresses of the GPUs that have it."""
    places: dict[str, dict[str, list[str]]] = {}
    for gpu in report.gpus:
        for name, reading in gpu.readings.items():
            if isinstance(reading, float) and reading > 0 and name not in LOWEST:
                places.setdefault(name, {}).setdefault(gpu.details.get(name, ""), []).append(gpu.bus_id)
    return {
        name: "; ".join(name_places(text, found, len(report.gpus)) for text, found in texts.items())
        for name, texts in places.items()
    }


def name_places(text: str, addresses: Sequence[str], gpus: int) -> str:
    """Return a detail with the addresses that it belongs to."""
    named = f"all {gpus} GPUs" if len(addresses) == gpus > 1 else ", ".join(addresses)
    return f"{named}: {text}" if text else named


def is_fault(raw: Raw, message: ToolMessage) -> bool:
    """Return whether a message names a fault; a node without GPUs, and without declared ones, misses none."""
    has_gpus = bool(list_or_empty(raw.get("on_bus")) or to_finite_number(raw.get("expect_gpus")))
    return bool(message.rule.metric) and (message.rule.metric != MISSING or has_gpus)


def read_messages(raw: Raw) -> CheckReadings:
    """Return what nvidia-smi said in words where it gave no report, or beside it."""
    messages = [message for message in find_messages(raw) if is_fault(raw, message)]
    metrics: dict[str, float] = {}
    for metric in dict.fromkeys(message.rule.metric for message in messages):
        places = {message.address for message in messages if message.rule.metric == metric}
        metrics[metric] = count_missing_gpus(raw, 0) if metric == MISSING else float(len(places))
    if not metrics:
        return CheckReadings(
            unreadable=explain_failure(raw) or "the output is not a report of nvidia-smi -q -x"
        )
    details = {message.rule.metric: message.text for message in messages}
    return CheckReadings(metrics, 0.0, "GPUs", details=details)

"""Which parts a node's records show, and which part each fault belongs to. Pure, and never trusting the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.checks.gpu_amd.read import find_card_name
from gpufleet.burnin.checks.gpu_nvidia.message import find_messages
from gpufleet.burnin.checks.gpu_nvidia.read import read_report
from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    list_or_empty,
    mapping_or_empty,
)
from gpufleet.burnin.gpu_readings import RECOVERY_ACTION, RECOVERY_ACTIONS
from gpufleet.burnin.kernel_event import normalize_pci, read_kernel_events
from gpufleet.burnin.kernel_rule import KernelRule
from gpufleet.burnin.overrides import ThresholdOverride, apply_overrides
from gpufleet.burnin.readings import KERNEL_LOG, extract_check_metrics
from gpufleet.burnin.report import BurninReport, CheckResult
from gpufleet.burnin.site_card import NO_CARDS, SiteCards, get_site_cards
from gpufleet.burnin.thresholds import Threshold, select_thresholds
from gpufleet.burnin.verdict import (
    Record,
    attach_site_knowledge,
    judge_metric,
    replace_expected_values,
    select_last_attempt,
)
from gpufleet.burnin.xid_rule import NO_HISTORY, EventHistory
from gpufleet.nodes.identity import normalize_serial
from gpufleet.nodes.part import ObservedFault, ObservedPart, PartObservation

# Records with a list of devices: what must be left out so that one device is judged by itself.
BUS_KEYS = {"on_bus": [], "amd_on_bus": [], "expect_gpus": 0, "expect_amd_gpus": 0}
NODE_WIDE = ("fabric_failed", "nvlinks_inactive")
DEVICE_CHECKS = ("gpu_compute", "gpu_memory", "gpu_copy", "gpu_hip", "gpu_vulkan", "gpu_amd")


def observe_parts(
    records: Iterable[Any],
    node_kind: str,
    report: BurninReport,
    *,
    rehearsal: bool = False,
    overrides: tuple[ThresholdOverride, ...] = (),
    expected: Record = MappingProxyType({}),
    kernel_rules: tuple[KernelRule, ...] = (),
    history: EventHistory = NO_HISTORY,
    cards: SiteCards = NO_CARDS,
) -> PartObservation:
    """Return the parts in an attempt's records and the faults of its failed checks, each with the part that has it."""
    attempt = replace_expected_values(select_last_attempt(records), expected)
    checks = attach_site_knowledge(attempt, history, cards).checks
    shipped = select_thresholds(node_kind, rehearsal=rehearsal)
    site = apply_overrides(shipped, overrides, node_kind, rehearsal=rehearsal)
    rules = [rule for rule in site if rule.bound != "unjudged"]
    raws = {str(check.get("name")): mapping_or_empty(check.get("raw")) for check in checks}
    failed = {check.name: check for check in report.checks if check.outcome == "fail"}
    parts = tuple(list_parts(checks))
    faults = [
        fault
        for name, result in failed.items()
        if name != KERNEL_LOG
        for fault in _find_faults(result, raws.get(name, {}), [rule for rule in rules if rule.check == name])
    ]
    if KERNEL_LOG in failed:
        gpus = frozenset(part.position for part in parts if part.kind == "gpu")
        faults += _find_kernel_faults(raws.get(KERNEL_LOG, {}), kernel_rules, gpus)
    return PartObservation(parts, tuple(dict.fromkeys(faults)))


def list_parts(checks: Iterable[Record]) -> Iterator[ObservedPart]:
    """Yield the parts that an attempt's checks describe, each with its identity and position."""
    for check in checks:
        raw = mapping_or_empty(check.get("raw"))
        if check.get("name") == "gpu_nvidia" and (report := read_report(raw)) is not None:
            for gpu in report.gpus:
                serial, uuid = normalize_serial(gpu.serial), _normalize_uuid(gpu.uuid)
                yield ObservedPart("gpu", serial, uuid, gpu.model or None, normalize_pci(gpu.bus_id))
        if check.get("name") == "gpu_amd":
            for card in map(mapping_or_empty, list_or_empty(raw.get("devices"))):
                serial = normalize_serial(_text(card.get("serial_number")))
                uuid = normalize_serial(_text(card.get("unique_id")))
                model = _text(card.get("product_name")) or find_card_name(card, get_site_cards(raw)) or None
                yield ObservedPart("gpu", serial, uuid, model, normalize_pci(_text(card.get("slot"))))
        if check.get("name") == "smart":
            for drive in map(mapping_or_empty, list_or_empty(raw.get("drives"))):
                serial = normalize_serial(_text(drive.get("serial_number")))
                if serial:
                    yield ObservedPart(
                        "drive",
                        serial,
                        None,
                        _text(drive.get("model_name")) or None,
                        _text(drive.get("name")),
                    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _normalize_uuid(uuid: str) -> str | None:
    return uuid if normalize_serial(uuid.removeprefix("GPU-")) else None


def _find_faults(result: CheckResult, raw: Raw, rules: list[Threshold]) -> Iterator[ObservedFault]:
    """Yield the faults of one failed check: of each part where the record tells them apart, else of the node."""
    found: set[str] = set()
    for kind, position, readings in _split_by_part(result.name, raw):
        for rule in _missed(rules, readings):
            found.add(rule.metric)
            yield _fault(rule, readings, kind, position)
    whole = extract_check_metrics(result.name, raw)
    rest = [rule for rule in _missed(rules, whole) if rule.metric not in found]
    rest = _drop_consequences(result.name, rest)
    yield from (_fault(rule, whole, "board", "") for rule in rest)
    if not found and not rest:
        yield ObservedFault(result.name, result.name, result.reason or "the check failed")


def _drop_consequences(check_name: str, missed: list[Threshold]) -> list[Threshold]:
    """Leave out what is missed only because something else is: a full disk also refuses the scratch file."""
    check = load_checks().get(check_name)
    metrics = {rule.metric for rule in missed}
    for entry in check.repair if check else ():
        if entry.metric in metrics:
            metrics -= set(entry.covers)
    return [rule for rule in missed if rule.metric in metrics]


def _missed(rules: Iterable[Threshold], readings: CheckReadings) -> list[Threshold]:
    return [
        rule for rule in rules if judge_metric(rule, readings) == "fail" and rule.metric in readings.metrics
    ]


def _fault(rule: Threshold, readings: CheckReadings, kind: str, position: str) -> ObservedFault:
    """Return a missed threshold as a fault. A recovery action has its own steps, so that its number is in the name."""
    measured = readings.metrics[rule.metric]
    name, detail = f"{rule.check}.{rule.metric}", rule.meaning
    action = readings.details.get(rule.metric, "") if rule.metric == RECOVERY_ACTION else ""
    if number := RECOVERY_ACTIONS.get(action):
        name, detail = f"{name}.{number}", f"{detail}: {action}"
    return ObservedFault(
        name,
        rule.check,
        detail,
        kind,
        position,
        measured,
        rule.value,
        rule.unit,
    )


def _split_by_part(check_name: str, raw: Raw) -> Iterator[tuple[str, str, CheckReadings]]:
    """Yield (kind of part, position, readings) for each part that a record describes by itself."""
    if check_name == "gpu_nvidia":
        report = read_report(raw)
        gpus = {normalize_pci(gpu.bus_id): gpu for gpu in report.gpus} if report else {}
        described = _drop_faults_of_all({position: gpu.readings for position, gpu in gpus.items()})
        for position, gpu_readings in described.items():
            details = {RECOVERY_ACTION: gpus[position].recovery_action}
            yield "gpu", position, replace(build_check_readings(gpu_readings, None, ""), details=details)
        for message in find_messages(raw):
            position = normalize_pci(message.address)
            if position and message.rule.metric and position not in described:
                yield "gpu", position, build_check_readings({message.rule.metric: 1.0}, None, "")
    elif check_name in DEVICE_CHECKS:
        for device in map(mapping_or_empty, list_or_empty(raw.get("devices"))):
            alone = {**raw, **BUS_KEYS, "devices": [device]}
            position = normalize_pci(_text(device.get("bus_id") or device.get("slot")))
            number = mapping_or_empty(device.get("errors_after")).get(RECOVERY_ACTION)
            action = next((text for text, code in RECOVERY_ACTIONS.items() if code == number), "")
            readings = extract_check_metrics(check_name, alone)
            yield "gpu", position, replace(readings, details={RECOVERY_ACTION: action})
    elif check_name == "smart":
        for drive in map(mapping_or_empty, list_or_empty(raw.get("drives"))):
            readings = extract_check_metrics(check_name, {**raw, "drives": [drive]})
            yield "drive", _text(drive.get("name")), readings


def _drop_faults_of_all(gpus: Mapping[str, Mapping[str, Reading]]) -> dict[str, dict[str, Reading]]:
    """Leave out a fabric that has taken no GPU at all: its manager is at fault then, and no GPU."""
    names = [
        name
        for name in NODE_WIDE
        if len(gpus) > 1 and all(readings.get(name) == 1.0 for readings in gpus.values())
    ]
    return {
        position: {name: value for name, value in readings.items() if name not in names}
        for position, readings in gpus.items()
    }


def _find_kernel_faults(
    raw: Raw, kernel_rules: tuple[KernelRule, ...], gpu_positions: frozenset[str]
) -> Iterator[ObservedFault]:
    """Yield a fault for each fatal kind of event, with the part at the address that it names."""
    for event in read_kernel_events(raw, kernel_rules):
        if event.outcome == "fatal":
            kind = "gpu" if event.position in gpu_positions else event.part_kind
            detail = f"{event.meaning}: {event.text}" if event.rule else event.text
            yield ObservedFault(event.code, KERNEL_LOG, detail, kind, event.position)

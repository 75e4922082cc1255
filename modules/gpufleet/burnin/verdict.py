"""From an attempt's records to outcomes and a verdict; pure, so that new rules can judge old runs again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gpufleet.boundary import make_printable
from gpufleet.burnin.evidence import CheckReadings, list_or_empty, mapping_or_empty, to_finite_number
from gpufleet.burnin.expected_hardware import COMPARED, VENDORS, apply_expected_values, parse_pci_device
from gpufleet.burnin.kernel_rule import KernelRule
from gpufleet.burnin.overrides import ThresholdOverride, apply_overrides
from gpufleet.burnin.readings import KERNEL_LOG, extract_check_metrics
from gpufleet.burnin.report import OUTCOMES, BurninReport, CheckResult
from gpufleet.burnin.site_card import CARD_CHECKS, NO_CARDS, SITE_CARDS, SiteCards
from gpufleet.burnin.thresholds import ALTERNATIVE, Threshold, list_required_checks, select_thresholds
from gpufleet.burnin.xid_rule import EVENT_HISTORY, NO_HISTORY, EventHistory

Record = Mapping[str, Any]
KERNEL_LOG_VERSION = (1, 1)
LONGEST_DETAIL, LONGEST_EXPLANATION = 200, 700


@dataclass(frozen=True)
class AttemptRecords:
    """One attempt's records by kind."""

    start: Record
    checks: tuple[Record, ...]
    end: Record | None


def select_last_attempt(records: Iterable[Any]) -> AttemptRecords:
    """Return the last attempt in a stream of records; anything else is skipped."""
    start: Record = {}
    checks: list[Record] = []
    end: Record | None = None
    for record in records:
        kind = record.get("type") if isinstance(record, Mapping) else None
        if kind == "start":
            # What the playbook says before the agent starts (configuration) belongs to the attempt too.
            start, end = record, None
            checks = [check for check in checks if check.get("name") == "configuration"]
        elif kind == "check":
            checks.append(record)
        elif kind == "end":
            end = record
    return AttemptRecords(start, tuple(checks), end)


def judge_attempt(
    records: Iterable[Any],
    node_kind: str,
    profile: str,
    rehearsal: bool = False,
    *,
    is_configured: bool | None = None,
    node: str = "",
    overrides: tuple[ThresholdOverride, ...] = (),
    expected: Record = MappingProxyType({}),
    kernel_rules: tuple[KernelRule, ...] = (),
    history: EventHistory = NO_HISTORY,
    cards: SiteCards = NO_CARDS,
) -> BurninReport:
    """Judge an attempt of a node of a kind; invalid records never raise.

    ``is_configured`` is what the registry knows of the node's configuration (None: nothing). It is used
    only if the records do not contain it. ``expected`` is the hardware that the registry declares, by the names of
    the agent's parameters: the records come from the node and cannot lower it. ``kernel_rules`` are the site's own.
    ``history`` is what earlier attempts saw in the node's kernel log, ``cards`` are the site's own.
    """
    attempt = replace_expected_values(select_last_attempt(records), expected)
    attempt = attach_site_knowledge(attempt, history, cards)
    hardware = list_known_hardware(attempt, expected)
    readings = [*attempt.checks, *build_configuration_if_missing(attempt, is_configured)]
    shipped = select_thresholds(node_kind, rehearsal=rehearsal)
    rules = apply_overrides(shipped, overrides, node_kind, rehearsal=rehearsal)
    refused = find_rehearsal_mismatch(attempt, rehearsal)
    judged = [judge_check(record, rules, refused, rehearsal, kernel_rules) for record in readings]
    required = choose_alternatives(list_required_checks(node_kind, profile, hardware), judged)
    checks = merge_required_checks(judged, required)
    return BurninReport(
        attempt=text_or_none(attempt.start.get("attempt")) or "",
        node=node,
        profile=profile,
        verdict=decide_verdict(checks, required, has_ended=attempt.end is not None),
        started_at=text_or_none(attempt.start.get("started_at")),
        ended_at=text_or_none(attempt.end.get("ended_at")) if attempt.end else None,
        checks=checks,
        required=required,
    )


def replace_expected_values(attempt: AttemptRecords, expected: Record) -> AttemptRecords:
    """Return the attempt with the registry's declarations in every check's record."""
    checks = tuple(
        {**check, "raw": apply_expected_values(raw, expected)}
        if isinstance(raw := check.get("raw"), Mapping)
        else check
        for check in attempt.checks
    )
    return AttemptRecords(attempt.start, checks, attempt.end)


def attach_site_knowledge(attempt: AttemptRecords, history: EventHistory, cards: SiteCards) -> AttemptRecords:
    """Return the attempt with what the records cannot know.

    The record of the kernel log gets what earlier attempts saw in it, those of GPUs and hardware the site's own cards.
    """
    added: dict[str, dict[str, Any]] = {name: {SITE_CARDS: cards} for name in CARD_CHECKS}
    added[KERNEL_LOG] = {EVENT_HISTORY: history}
    checks = tuple(
        {**check, "raw": {**raw, **added[name]}}
        if (name := str(check.get("name"))) in added and isinstance(raw := check.get("raw"), Mapping)
        else check
        for check in attempt.checks
    )
    return AttemptRecords(attempt.start, checks, attempt.end)


def list_known_hardware(attempt: AttemptRecords, expected: Record) -> frozenset[str]:
    """Return which keys of ``HARDWARE`` apply: what is declared, or is on the PCI bus.

    A GPU that died tells nothing by itself, so any check that saw it on the bus makes its vendor's checks required.
    """
    parameters = apply_expected_values(
        # Parameters reach the agent as words on its command line.
        {name: read_word(value) for name, value in mapping_or_empty(attempt.start.get("params")).items()},
        expected,
    )
    known = {"declared"} if COMPARED & expected.keys() else set()
    known |= {vendor for name, vendor in VENDORS.items() if parameters.get(name)}
    known |= {"kernel_log"} if reads_kernel_log(attempt.start) else set()
    for check in attempt.checks:
        raw = mapping_or_empty(check.get("raw"))
        known |= {"10de"} if list_or_empty(raw.get("on_bus")) else set()
        if check.get("name") == "hardware":
            known |= {parse_pci_device(mapping_or_empty(d)).vendor for d in list_or_empty(raw.get("devices"))}
    return frozenset(known)


def reads_kernel_log(start: Record) -> bool:
    """Return whether the agent of an attempt reads the kernel log of every node; rehearsed hosts have none."""
    version = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", str(start.get("agent_version")))
    is_rehearsal = start.get("rehearsal") not in (None, False)
    return (
        version is not None and not is_rehearsal and (int(version[1]), int(version[2])) >= KERNEL_LOG_VERSION
    )


def read_word(value: Any) -> float | None:
    """Return the number in a parameter; None for anything else."""
    try:
        return to_finite_number(float(value))
    except (TypeError, ValueError):
        return None


def build_configuration_if_missing(attempt: AttemptRecords, configured: bool | None) -> list[Record]:
    """Return the registry's record of the configuration, unless the records have one."""
    if configured is None or any(check.get("name") == "configuration" for check in attempt.checks):
        return []
    return [{"type": "check", "name": "configuration", "status": "ran", "raw": {"configured": configured}}]


def find_rehearsal_mismatch(attempt: AttemptRecords, rehearsal: bool) -> str:
    """Return why an attempt can't be judged as a real one, or nothing."""
    rehearsed = attempt.start.get("rehearsal") not in (None, False)
    return (
        "the record was collected with a rehearsal's parameters but judged as a real run"
        if rehearsed and not rehearsal
        else ""
    )


def judge_check(
    check_record: Record,
    thresholds: tuple[Threshold, ...],
    refusal_reason: str,
    rehearsal: bool,
    kernel_rules: tuple[KernelRule, ...] = (),
) -> CheckResult:
    """Judge one record: only one that ran, and ran on the real thing, can pass."""
    name, status = text_or_none(check_record.get("name")) or "(unnamed)", check_record.get("status")
    raw = check_record.get("raw")
    reason = text_or_none(check_record.get("reason")) or ""
    if status == "not_run":
        return CheckResult(name, "not_run", reason=reason or "not run")
    if status != "ran" or not isinstance(raw, Mapping):
        return CheckResult(name, "not_run", reason=f"error: {reason or 'the record is invalid'}")
    unreal = refusal_reason if name != "configuration" else ""
    unreal = unreal or ("" if rehearsal else find_fake_source(raw))
    if unreal:
        return CheckResult(name, "not_run", reason=unreal)
    readings = extract_check_metrics(name, raw, kernel_rules)
    if readings.unreadable:
        return CheckResult(name, "not_run", reason=readings.unreadable)
    check_thresholds = [rule for rule in thresholds if rule.check == name and rule.bound != "unjudged"]
    return judge_readings(name, readings, check_thresholds, reason)


def find_fake_source(raw: Mapping[str, Any]) -> str:
    """Return the fake source of a reading, or an empty text for real hardware."""
    if raw.get("fake"):
        return "answered by a fake tool"
    return "read from a fake sysfs" if raw.get("root", "/sys") != "/sys" and "devices" in raw else ""


def judge_readings(
    check_name: str, readings: CheckReadings, thresholds: list[Threshold], agent_reason: str
) -> CheckResult:
    """Compare metrics with their thresholds; the worst one decides, all missed ones are named."""
    thresholds = [rule for rule in thresholds if applies_to_node(rule, readings)]
    outcomes = [(judge_metric(rule, readings), rule) for rule in thresholds]
    if not any(metric in readings.metrics for metric in (rule.metric for rule in thresholds)):
        # Seen, but no rule speaks of it: worth keeping, never worth a pass.
        return CheckResult(
            check_name,
            "not_run",
            readings.display_value,
            readings.unit,
            reason=agent_reason or "no threshold applies to this check",
        )
    worst = min((outcome for outcome, _ in outcomes), key=OUTCOMES.index)
    missed = [rule for outcome, rule in outcomes if outcome != "pass" and outcome == worst]
    # Beside a failure, what could not be measured because of it is noise.
    others = [rule for outcome, rule in outcomes if outcome not in {"pass", worst, "not_run"}]
    deciding = missed[0] if missed else find_displayed_threshold(readings, thresholds)
    value = readings.metrics.get(deciding.metric) if deciding else None
    return CheckResult(
        check_name,
        worst,
        measured=readings.display_value
        if isinstance(readings.display_value, str) or value is None
        else value,
        unit=readings.unit
        if isinstance(readings.display_value, str) or value is None or not deciding
        else deciding.unit,
        threshold=deciding.value if deciding else None,
        threshold_source=f"{deciding.source} ({deciding.date})" if deciding else "",
        reason="; ".join(
            dict.fromkeys(
                [
                    *(explain_missed_threshold(rule, readings) for rule in (*missed, *others)),
                    *agent_reason_as_list(agent_reason),
                    *(rule.override for rule in thresholds if rule.override),
                ]
            )
        ),
    )


def agent_reason_as_list(agent_reason: str) -> list[str]:
    """Return the record's own reason, where it gives one."""
    return [agent_reason] if agent_reason else []


def applies_to_node(threshold: Threshold, readings: CheckReadings) -> bool:
    """Return whether a node has the card that a bound belongs to."""
    known = (readings.metrics, readings.missing_reasons, readings.not_applicable)
    return not threshold.card or any(threshold.metric in names for names in known)


def judge_metric(threshold: Threshold, readings: CheckReadings) -> str:
    """Compare one metric with one threshold."""
    measured = readings.metrics.get(threshold.metric)
    if measured is None:
        is_acceptable = threshold.absent == "skip" or threshold.metric in readings.not_applicable
        return "pass" if is_acceptable else "not_run"
    return "pass" if threshold.is_met_by(measured) else threshold.on_miss


def find_displayed_threshold(readings: CheckReadings, thresholds: list[Threshold]) -> Threshold | None:
    """Return the threshold of the number that a report shows, if one bounds it."""
    displayed_rules = (
        rule for rule in thresholds if readings.metrics.get(rule.metric) == readings.display_value
    )
    return next(displayed_rules, None) if readings.display_value is not None else None


def explain_missed_threshold(threshold: Threshold, readings: CheckReadings) -> str:
    """Return the text on a missed threshold: meaning, number and bound."""
    measured = readings.metrics.get(threshold.metric)
    if measured is None:
        reason = readings.missing_reasons.get(threshold.metric, "")
        return f"{threshold.metric} was not measured" + (f": {reason}" if reason else "")
    if threshold.metric in readings.explanations:
        return make_printable(readings.explanations[threshold.metric], LONGEST_EXPLANATION)
    if threshold.unit in {"flag", "flags"}:
        return f"{threshold.meaning} ({readings.display_value})"
    bound = "" if threshold.bound == "ceiling" and threshold.value == 0 else f", {threshold.bound_text}"
    detail = make_printable(readings.details.get(threshold.metric, ""))[:LONGEST_DETAIL]
    return f"{threshold.meaning} ({measured:g} {threshold.unit}{bound})" + (f": {detail}" if detail else "")


def choose_alternatives(required: tuple[str, ...], judged: list[CheckResult]) -> tuple[str, ...]:
    """Return the required checks with one name for each ``A or B``: the first that has run, else one with a record."""
    ran = {check.name for check in judged if check.outcome != "not_run"}
    recorded = {check.name for check in judged}

    def choose(names: list[str]) -> str:
        return next((name for known in (ran, recorded) for name in names if name in known), names[-1])

    return tuple(dict.fromkeys(choose(entry.split(ALTERNATIVE)) for entry in required))


def merge_required_checks(judged: list[CheckResult], required: tuple[str, ...]) -> tuple[CheckResult, ...]:
    """Order checks, required ones first, and name those that have no record at all.

    Where a check has several records the worst stands: repeating a check does not improve it.
    """
    best: dict[str, CheckResult] = {}
    for check in judged:
        best_so_far = best.get(check.name)
        if best_so_far is None or OUTCOMES.index(check.outcome) < OUTCOMES.index(best_so_far.outcome):
            best[check.name] = check
    absent = {
        name: CheckResult(name, "not_run", reason="the records do not contain this check")
        for name in required
        if name not in best
    }
    names = dict.fromkeys([*required, *best])
    return tuple(best.get(name) or absent[name] for name in names)


def decide_verdict(checks: tuple[CheckResult, ...], required: tuple[str, ...], *, has_ended: bool) -> str:
    """Return the verdict: the one table of outcome to verdict.

    Required checks must have run. What a check found counts, required or not.
    """
    outcomes = {check.outcome for check in checks}
    if "fail" in outcomes:
        return "faulty"
    if not has_ended or any(check.outcome == "not_run" and check.name in required for check in checks):
        return "incomplete"
    return "degraded" if "warn" in outcomes else "healthy"


def text_or_none(value: Any) -> str | None:
    """Return a text, or None for anything else."""
    return value if isinstance(value, str) else None

"""What earlier attempts of a node saw in its kernel log, on one axis of time. Pure, and never trusting the records.

Two attempts of one boot read the same log: its events have the same time since boot, so that they count once. A log
without times counts at the moment in which it was read, and a line that an earlier attempt read too is the same event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gpufleet.burnin.evidence import mapping_or_empty, to_finite_number
from gpufleet.burnin.kernel_event import list_kernel_events
from gpufleet.burnin.kernel_rule import KernelRule
from gpufleet.burnin.log_event import KernelEvent
from gpufleet.burnin.part import list_parts
from gpufleet.burnin.readings import KERNEL_LOG
from gpufleet.burnin.verdict import AttemptRecords, select_last_attempt
from gpufleet.burnin.xid_rule import EventHistory, Occurrence, PartRepair

MAX_EARLIER = 64  # attempts; more within the longest window of a rule are no burn-ins
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class _KernelLog:
    attempt: str
    boot_id: str
    events: tuple[KernelEvent, ...]
    history: EventHistory


def build_event_history(
    records: Iterable[Any],
    earlier: Sequence[Iterable[Any]] = (),
    repairs: Iterable[PartRepair] = (),
    record_only: Iterable[str] = (),
    kernel_rules: tuple[KernelRule, ...] = (),
) -> EventHistory:
    """Return what the rules over time need beside an attempt's records.

    ``earlier`` are the records of the node's attempts before this one, oldest first. The same attempt in it is skipped:
    a stored new judgement repeats the records.
    """
    own = _read_log(select_last_attempt(records), kernel_rules)
    logs = [_read_log(select_last_attempt(each), kernel_rules) for each in earlier[-MAX_EARLIER:]]
    logs = [log for log in logs if log.attempt != own.attempt or not log.attempt]
    boots = {log.boot_id: log.history.booted_at for log in reversed([*logs, own]) if log.boot_id}
    seen: list[Occurrence] = []
    for number, log in enumerate(logs):
        later = [other for other in (*logs[number + 1 :], own) if _may_be_one_boot(log, other)]
        repeated = {event.text for other in later for event in other.events if event.first_seconds is None}
        history = replace(log.history, booted_at=boots.get(log.boot_id, log.history.booted_at))
        for event in log.events:
            if event.first_seconds is not None or event.text not in repeated:
                seen += history.locate(event, is_current=False)
    return EventHistory(
        booted_at=boots.get(own.boot_id, own.history.booted_at),
        read_at=own.history.read_at,
        parts=own.history.parts,
        earlier=tuple(seen),
        repairs=tuple(repairs),
        record_only=frozenset(record_only),
    )


def _may_be_one_boot(log: _KernelLog, other: _KernelLog) -> bool:
    return not log.boot_id or not other.boot_id or log.boot_id == other.boot_id


def _read_log(attempt: AttemptRecords, kernel_rules: tuple[KernelRule, ...]) -> _KernelLog:
    check = next((check for check in attempt.checks if check.get("name") == KERNEL_LOG), {})
    raw = mapping_or_empty(check.get("raw"))
    events = tuple(list_kernel_events(raw, kernel_rules))
    read_at = (
        _parse_time(check.get("ended_at"))
        or _parse_time(check.get("started_at"))
        or _parse_time(attempt.start.get("started_at"))
    )
    return _KernelLog(
        _text(attempt.start.get("attempt")),
        _text(attempt.start.get("boot_id")),
        events,
        EventHistory(_find_boot_time(raw, events, read_at), read_at, _identify_parts(attempt)),
    )


def _find_boot_time(raw: Mapping[str, Any], events: Iterable[KernelEvent], read_at: float) -> float | None:
    """Return when the node booted; a record without its uptime: so that the last event was when the log was read."""
    uptime = to_finite_number(raw.get("uptime_s"))
    if uptime is None:
        uptime = max((event.last_seconds for event in events if event.last_seconds is not None), default=None)
    return read_at - max(uptime, 0.0) if uptime is not None and read_at else None


def _identify_parts(attempt: AttemptRecords) -> dict[str, str]:
    return {
        part.position: identity
        for part in list_parts(attempt.checks)
        if part.position and (identity := part.uuid or part.serial)
    }


def _parse_time(value: Any) -> float:
    try:
        return datetime.strptime(_text(value), _TIME_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

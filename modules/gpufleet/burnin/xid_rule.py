"""Judge events of the kernel log by the rules over time and by register (`data/event_rules.yaml`); pure.

Events close together are one burst, and rules count bursts. Times are seconds since the epoch where the record says
when the node booted, else seconds since boot: only differences matter. An event of an earlier attempt supports a rule,
and never makes one apply alone: the log that is judged must contain an event of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from gpufleet.boundary import read_packaged_rows
from gpufleet.burnin.event_rule import REGISTER_BITS, EventRule, load_bit_rules, load_event_rules
from gpufleet.burnin.log_event import KernelEvent
from gpufleet.burnin.repair_step import choose_ladder

EVENT_HISTORY = "event_history"
"""Where the record of the kernel log holds an ``EventHistory``; a node can put only plain values there."""
OUTCOME_ORDER = ("fatal", "review", "application", "record")
HOUR = 3600.0
UNIT = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})")
LINK = re.compile(r"(?:\blink (-?\d{1,4}) ?)?\(((?:0x[0-9a-fA-F]{1,8}(?:, *)?){1,7})\)?")
CAUSE = re.compile(r"caused by previous Xid (\d{1,6})")
XID_CODE = re.compile(r"xid_(\d{1,6})(?:\.\d+)?")
# Consequences of other XIDs: they never accompany one.
CONSEQUENCES = ("xid_45", "xid_154")
# More than these are a hostile record: the newest count.
MAX_OCCURRENCES = 4000
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


@dataclass(frozen=True)
class Occurrence:
    """An event, or a burst of equal ones, from ``start`` to ``end``; ``part`` is the identity of its part."""

    event: KernelEvent
    part: str
    start: float
    end: float
    is_current: bool = True


@dataclass(frozen=True)
class PartRepair:
    """What was done to a part, and when."""

    part: str
    action: str
    at: float


@dataclass(frozen=True)
class EventHistory:
    """What is known beside the log that is judged; nothing, when left out.

    ``booted_at`` and ``read_at``: when the node booted and the log was read, in seconds since the epoch. ``parts``: the
    identity of the part at a position. ``record_only``: rules that the site only records.
    """

    booted_at: float | None = None
    read_at: float = 0.0
    parts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    earlier: tuple[Occurrence, ...] = ()
    repairs: tuple[PartRepair, ...] = ()
    record_only: frozenset[str] = frozenset()

    def locate(self, event: KernelEvent, *, is_current: bool = True) -> list[Occurrence]:
        """Return the occurrences of an event of this log, oldest first."""
        part = self.parts.get(event.position, event.position)
        offset = self.booted_at or 0.0
        spans = _list_spans(event)
        if spans is None:
            return [Occurrence(event, part, self.read_at, self.read_at, is_current)]
        return [Occurrence(event, part, offset + start, offset + end, is_current) for start, end in spans]


NO_HISTORY = EventHistory()


def get_event_history(raw: Mapping[str, Any]) -> EventHistory:
    """Return what is attached to a record of the kernel log; nothing for one that is read by itself."""
    history = raw.get(EVENT_HISTORY)
    return history if isinstance(history, EventHistory) else NO_HISTORY


def _list_spans(event: KernelEvent) -> list[tuple[float, float]] | None:
    """Return when an event occurred, in seconds since boot; None for a log without times.

    Records of older agents have the first and the last time. What lies between them may be one storm: it counts as one.
    """
    if event.bursts:
        return sorted((start, end) for start, end in event.bursts)
    if event.first_seconds is None or event.last_seconds is None:
        return None
    times = sorted({event.first_seconds, *event.times, event.last_seconds})
    known = len(event.times or times)
    if event.count <= max(known, len(times)):
        return [(at, at) for at in times]
    oldest = min(event.times, default=event.last_seconds)
    return [(event.first_seconds, oldest), *((at, at) for at in times if at > oldest)]


def refine_events(events: Iterable[KernelEvent], history: EventHistory = NO_HISTORY) -> list[KernelEvent]:
    """Return the events as the rules judge them, and one more for each rule over time that applies."""
    own = list(events)
    current = [occurrence for event in own for occurrence in history.locate(event)]
    every = sorted([*history.earlier, *current], key=lambda seen: (seen.start, seen.end, seen.event.code))
    judge = _RuleJudge(every[-MAX_OCCURRENCES:], history)
    refined = [judge.refine(event) for event in own]
    return [*refined, *judge.find_repetitions()]


class _RuleJudge:
    """Judge the events of one log, with those of earlier logs of the node beside them."""

    def __init__(self, every: Sequence[Occurrence], history: EventHistory) -> None:
        self.history = history
        self.every = every
        self._by_code: dict[str, list[Occurrence]] = {}
        for seen in every:
            self._by_code.setdefault(seen.event.code, []).append(seen)
        self._outcomes: dict[KernelEvent, str] = {}
        self._bursts: dict[str, dict[tuple[str, ...], list[Burst]]] = {}
        self._repeated: dict[str, set[tuple[str, ...]]] = {}
        self._places: dict[tuple[str | None, str], list[tuple[tuple[str, ...], float, float]]] = {}

    def refine(self, event: KernelEvent) -> KernelEvent:
        """Return an event as the rules on it alone, its registers, its cause and its spread over parts judge it."""
        if event.code == "xid_74":
            return self._refine_registers(event)
        if event.code == "xid_45":
            return self._refine_cause(event)
        for rule in load_event_rules():
            if rule.different and self._applies(rule, event) and self._is_spread(rule, event):
                return _apply_rule(event, rule, f"{_describe(event)}: {rule.meaning}")
        return event

    def find_repetitions(self) -> Iterator[KernelEvent]:
        """Yield an event for each rule over time that applies to parts of this log."""
        for rule in load_event_rules():
            if rule.same and not rule.bits:
                for key, bursts in self._group_bursts(rule).items():
                    if found := _find_window(bursts, rule):
                        yield self._build_repetition(rule, key, found)

    def _build_repetition(
        self, rule: EventRule, key: tuple[str, ...], bursts: Sequence[Burst]
    ) -> KernelEvent:
        last = next(burst for burst in reversed(bursts) if burst.is_current).last.event
        what = "fatal XIDs" if rule.if_outcome == "fatal" else _name_code(last.code)
        where = "" if rule.same == "node" else f" on {_describe_part(last)}"
        unit = f", GPC {key[1]} TPC {key[2]}" if rule.same == "unit" else ""
        times = "twice" if len(bursts) == 2 else f"{len(bursts)} times"  # noqa: PLR2004 - the word for two
        meaning = f"{what} {times} in {rule.within_h:g} h{where}{unit}: {rule.meaning}"
        repetition = replace(last, count=1, bursts=(), times=())
        if rule.same == "node":
            repetition = replace(repetition, part_kind="board", position="")
        if rule.rule in self.history.record_only:
            return _apply_rule(repetition, rule, f"recorded only: {meaning}", "record")
        return replace(_apply_rule(repetition, rule, meaning), code=rule.rule, steps=rule.steps)

    def _applies(self, rule: EventRule, event: KernelEvent) -> bool:
        return rule.rule not in self.history.record_only and _names_code(rule, event.code)

    def _group_bursts(self, rule: EventRule) -> dict[tuple[str, ...], list[Burst]]:
        """Return the bursts of each part that a rule over time counts."""
        if rule.rule in self._bursts:
            return self._bursts[rule.rule]
        groups: dict[tuple[str, ...], list[Occurrence]] = {}
        for code, occurrences in self._by_code.items():
            for seen in occurrences if _names_code(rule, code) else ():
                key = _build_key(rule.same, seen)
                if key is None or self._is_repaired(rule, seen) or not _has_bits(rule, seen.event):
                    continue
                if not rule.if_outcome or self._judge_outcome(seen.event) == rule.if_outcome:
                    groups.setdefault(key, []).append(seen)
        bursts = {key: merge_bursts(group, rule) for key, group in groups.items()}
        if rule.unless_shared:
            bursts = drop_shared_bursts(bursts, rule.burst_s)
        self._bursts[rule.rule] = bursts
        return bursts

    def _find_repeated(self, rule: EventRule) -> set[tuple[str, ...]]:
        """Return the parts to which a rule over time applies."""
        if rule.rule not in self._repeated:
            found = self._group_bursts(rule).items()
            self._repeated[rule.rule] = {key for key, bursts in found if _find_window(bursts, rule)}
        return self._repeated[rule.rule]

    def _judge_outcome(self, event: KernelEvent) -> str:
        """Return an event's outcome by its registers and its cause."""
        if event not in self._outcomes:
            self._outcomes[event] = (
                self.refine(event).outcome if event.code in ("xid_74", "xid_45") else event.outcome
            )
        return self._outcomes[event]

    def _is_repaired(self, rule: EventRule, seen: Occurrence) -> bool:
        """Return whether a step of the rule was done to the part after the event: it no longer counts."""
        return not seen.is_current and any(
            repair.action in (*rule.steps, "replace")
            and (rule.same == "node" or repair.part == seen.part)
            and repair.at >= seen.start
            for repair in self.history.repairs
        )

    def _list_places(self, different: str | None, code: str) -> list[tuple[tuple[str, ...], float, float]]:
        """Return which parts have a code, and when; nothing if only one part ever has it."""
        if (different, code) not in self._places:
            keyed = [(_build_key(different, seen), seen) for seen in self._by_code.get(code, ())]
            places = [(key, seen.start, seen.end) for key, seen in keyed if key]
            has_several = len({key for key, _, _ in places}) > 1
            self._places[different, code] = places if has_several else []
        return self._places[different, code]

    def _is_spread(self, rule: EventRule, event: KernelEvent) -> bool:
        """Return whether several parts have the event in the rule's window, and this one not twice alone."""
        own = self.history.locate(event)
        first, last = own[0].start - rule.within_h * HOUR, own[-1].end + rule.within_h * HOUR
        keys: set[tuple[str, ...]] = set()
        for key, start, end in self._list_places(rule.different, event.code):
            if first <= end and start <= last:
                keys.add(key)
                if len(keys) >= rule.count:
                    break
        else:
            return False
        own_keys = {_build_key(rule.different, seen) for seen in own}
        return not any(
            own_keys & self._find_repeated(repeated)
            for repeated in load_event_rules()
            if repeated.unless_shared and repeated.same == rule.different and self._applies(repeated, event)
        )

    def _refine_registers(self, event: KernelEvent) -> KernelEvent:
        """Judge an XID 74 by the bits of its registers; the worst bit decides."""
        places = read_register_bits(event.text)
        rules = load_bit_rules()
        if not places or any(
            place not in rules or not self._applies(rules[place], event) for place in places
        ):
            return event
        named = {rules[place].rule: rules[place] for place in sorted(places)}.values()
        meaningful = [rule for rule in named if rule.outcome != "record"] or list(named)
        judged = [(self._judge_bits(rule, event, len(meaningful) > 1), rule) for rule in meaningful]
        outcome, rule = min(judged, key=lambda pair: OUTCOME_ORDER.index(pair[0]))
        bits = ", ".join(
            f"{ORDINALS[register - 1]} register bit {bit}"
            for register, bit in sorted(places)
            if rules[register, bit] is rule
        )
        judged_event = _apply_rule(event, rule, f"{_describe(event)}, {bits}: {rule.meaning}", outcome)
        if outcome == rule.outcome and rule.steps:
            return replace(judged_event, code=rule.rule, steps=rule.steps)
        return judged_event

    def _judge_bits(self, rule: EventRule, event: KernelEvent, has_other_bits: bool) -> str:
        """Return the outcome of one rule on bits."""
        if rule.unless_other and (
            has_other_bits or self._is_accompanied(event, rule.within_h * HOUR, ("xid_74",))
        ):
            return rule.once or "record"
        if rule.count == 1:
            return rule.outcome
        own_keys = {_build_key(rule.same, seen) for seen in self.history.locate(event)}
        return rule.outcome if own_keys & self._find_repeated(rule) else rule.once or rule.outcome

    def _is_accompanied(self, event: KernelEvent, window: float, without: Sequence[str] = ()) -> bool:
        """Return whether another XID of the same part, which is no consequence itself, is close to an event."""
        own = self.history.locate(event)
        return any(
            seen.part == own[0].part
            and XID_CODE.fullmatch(seen.event.code)
            and seen.event.code not in (*CONSEQUENCES, *without)
            and seen.event.outcome != "record"
            and own[0].start - window <= seen.end
            and seen.start <= own[-1].end + window
            for seen in self.every
        )

    def _refine_cause(self, event: KernelEvent) -> KernelEvent:
        """Judge an XID 45 by the XID that the driver names as its cause, or by one that is in the log beside it."""
        rule = next(rule for rule in load_event_rules() if rule.cause)
        if not self._applies(rule, event):
            return event
        if match := CAUSE.search(event.text):
            code = f"xid_{int(match[1])}"
            part = self.history.locate(event)[0].part
            if any(seen.part == part and seen.is_current for seen in self._by_code.get(code, ())):
                return _apply_rule(event, rule, f"{_describe(event)}: follow {_name_code(code)}")
            meaning = f"{_describe(event)} caused by {_name_code(code)}"
            outcome = classify_cause(int(match[1]))
            return replace(
                _apply_rule(event, rule, meaning, outcome), code=code, steps=choose_ladder(code).steps
            )
        if self._is_accompanied(event, rule.burst_s):
            return _apply_rule(event, rule, f"{_describe(event)}: {rule.meaning}")
        return event


def _apply_rule(event: KernelEvent, rule: EventRule, meaning: str, outcome: str | None = None) -> KernelEvent:
    """Return an event as a rule judges it: its meaning is all that a report says of it."""
    return replace(event, outcome=outcome or rule.outcome, meaning=meaning, rule=rule.rule)


@dataclass(frozen=True)
class Burst:
    """Occurrences that count as one."""

    start: float
    end: float
    last: Occurrence
    is_current: bool


def merge_bursts(group: Iterable[Occurrence], rule: EventRule) -> list[Burst]:
    """Return the bursts of a part's occurrences, oldest first."""
    bursts: list[Burst] = []
    sticky_end: float | None = None
    for seen in sorted(group, key=lambda seen: (seen.start, seen.end, seen.event.code, seen.event.text)):
        is_sticky = seen.event.code in rule.sticky
        lasts = is_sticky and sticky_end is not None and seen.start - sticky_end <= rule.sticky_s
        if is_sticky:
            sticky_end = max(seen.end, sticky_end or seen.end)
        if bursts and (lasts or seen.start - bursts[-1].end <= rule.burst_s):
            before = bursts[-1]
            is_newer = (seen.is_current, seen.end) >= (before.last.is_current, before.last.end)
            last = seen if is_newer else before.last
            is_current = before.is_current or seen.is_current
            bursts[-1] = Burst(before.start, max(before.end, seen.end), last, is_current)
        else:
            bursts.append(Burst(seen.start, seen.end, seen, seen.is_current))
    return bursts


def drop_shared_bursts(
    bursts: Mapping[tuple[str, ...], list[Burst]], gap: float
) -> dict[tuple[str, ...], list[Burst]]:
    """Leave out bursts that other parts have at the same time: the workload caused them."""
    ordered = sorted(
        ((burst, key) for key, own in bursts.items() for burst in own), key=lambda pair: pair[0].start
    )
    kept: dict[tuple[str, ...], list[Burst]] = {key: [] for key in bursts}
    cluster: list[tuple[Burst, tuple[str, ...]]] = []
    end = 0.0
    for pair in [*ordered, None]:
        if cluster and (pair is None or pair[0].start - end > gap):
            if len({key for _, key in cluster}) == 1:
                kept[cluster[0][1]] += [burst for burst, _ in cluster]
            cluster = []
        if pair is not None:
            end = max(end, pair[0].end) if cluster else pair[0].end
            cluster.append(pair)
    return kept


def _find_window(bursts: Sequence[Burst], rule: EventRule) -> Sequence[Burst]:
    """Return the most bursts in one window of the rule, if they suffice and one is of the log that is judged."""
    best: Sequence[Burst] = ()
    first, current = 0, 0
    for number, last in enumerate(bursts):
        current += last.is_current
        while last.start - bursts[first].start > rule.within_h * HOUR:
            current -= bursts[first].is_current
            first += 1
        if current and number + 1 - first >= max(rule.count, len(best)):
            best = bursts[first : number + 1]
    return best


def _build_key(same: str | None, seen: Occurrence) -> tuple[str, ...] | None:
    """Return what names the part that a rule means; None if the event does not name one."""
    if same == "node":
        return (seen.event.code,)
    if same == "gpu":
        return (seen.part,)
    match = (UNIT if same == "unit" else LINK).search(seen.event.text)
    if match is None:
        return None
    return (seen.part, match[1], match[2]) if same == "unit" else (seen.part, match[1] or "")


@lru_cache(maxsize=4096)
def read_register_bits(text: str) -> frozenset[tuple[int, int]]:
    """Return the bits that are set in the registers of an XID 74, as (register from 1, bit); empty if it has none."""
    match = LINK.search(text)
    if match is None:
        return frozenset()
    values = [int(word, 16) for word in re.findall(r"0x[0-9a-fA-F]+", match[2])]
    return frozenset(
        (register, bit)
        for register, value in enumerate(values, 1)
        for bit in range(REGISTER_BITS)
        if value >> bit & 1
    )


@cache
def _load_classes() -> dict[int, str]:
    rows = read_packaged_rows("gpufleet.burnin", "data/xid.csv")
    return {row.get_integer("code"): row["class"] for row in rows}


def classify_cause(code: int) -> str:
    """Return the outcome of an XID that is known only as another's cause: without its severity it counts as fatal."""
    kind = _load_classes().get(code, "fatal")
    return "record" if kind == "ignore" else kind if kind in OUTCOME_ORDER else "fatal"


def _has_bits(rule: EventRule, event: KernelEvent) -> bool:
    if not rule.bits:
        return True
    return any(load_bit_rules().get(place) is rule for place in read_register_bits(event.text))


def _names_code(rule: EventRule, code: str) -> bool:
    return any(fnmatchcase(code, pattern) for pattern in rule.events) and not any(
        fnmatchcase(code, pattern) for pattern in rule.excepted
    )


def _name_code(code: str) -> str:
    match = XID_CODE.fullmatch(code)
    return f"XID {match[1]}" if match else code.removeprefix("kernel.").replace("_", " ")


def _describe_part(event: KernelEvent) -> str:
    if not event.position:
        return "the node"
    return f"{'GPU' if event.part_kind == 'gpu' else event.part_kind} {event.position}"


def _describe(event: KernelEvent) -> str:
    return f"{_name_code(event.code)} on {_describe_part(event)}"

"""What a record's kernel log says: events with part, outcome, steps and times. Pure, and never trusting the record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gpufleet.boundary import make_printable, read_packaged_rows
from gpufleet.burnin.agent.kernel_log import MAX_CHARACTERS, find_device, find_rule, group_hardware_errors
from gpufleet.burnin.evidence import Raw, list_or_empty, mapping_or_empty, to_finite_number
from gpufleet.burnin.kernel_rule import XID_RULE, KernelRule, Storm, combine_rules, list_agent_rules
from gpufleet.burnin.log_event import KernelEvent
from gpufleet.burnin.repair_step import choose_ladder
from gpufleet.burnin.xid_rule import get_event_history, refine_events

XID = re.compile(r"NVRM: Xid \(([^)]{1,40})\)[^:]{0,40}: (\d{1,6})\b(.*)", re.DOTALL)
RECOVERY_ACTION = re.compile(
    r"recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x([0-9a-fA-F]{1,8}) \("
)
NONFATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)
PCI_ADDRESS = re.compile(r"\b(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.([0-7]))?\b")
DISK = re.compile(r"\b(nvme\d{1,4})(?:c\d{1,4})?(n\d{1,4})?|\b((?:sd|vd|xvd)[a-z]{1,3}|mmcblk\d{1,3})")
# What is at a PCI address, by the first digits of its class.
CLASSES = (("0x03", "gpu"), ("0x12", "gpu"), ("0x0108", "drive"), ("0x01", "drive"), ("0x02", "nic"))
PCI_PARTS = ("gpu", "nic", "pcie", "nvswitch")
MAX_EVENTS = 2000
BOOT_SECONDS, NEAR_SECONDS = 10.0, 60.0
# Without times a log says only how many: ten times the number of a storm is a storm however long it took.
UNTIMED_FACTOR = 10
REVOKED_BY = {"xid_163": "xid_162"}


@dataclass(frozen=True)
class _Group:
    line: str
    count: int
    first: float | None
    last: float | None
    times: tuple[float, ...]
    bursts: tuple[tuple[float, float], ...]


def read_kernel_events(raw: Raw, site_rules: tuple[KernelRule, ...] = ()) -> list[KernelEvent]:
    """Return the kernel log's events of one record as the rules over time judge them."""
    return refine_events(list_kernel_events(raw, site_rules), get_event_history(raw))


def list_kernel_events(raw: Raw, site_rules: tuple[KernelRule, ...] = ()) -> list[KernelEvent]:
    """Return the kernel log's events of one record, each by itself, in the order of their last lines."""
    rules = {rule.id: rule for rule in combine_rules(site_rules)}
    agent_rules = _list_rules(site_rules)
    devices = mapping_or_empty(raw.get("pci"))
    events = [
        _build_event(group, rules[found[0][0]], find_device(found[1]), devices)
        for group in _read_groups(raw, agent_rules)
        if (found := find_rule(group.line, agent_rules))
    ]
    return drop_revoked_events(drop_outdated_recovery_actions(fill_positions(events)))


def fill_positions(events: list[KernelEvent]) -> list[KernelEvent]:
    """Give a driver's line without an address that of its lines a minute before or after, if they name one device."""
    return [_fill_position(event, events) if event.part_kind == "gpu" else event for event in events]


def _fill_position(event: KernelEvent, events: list[KernelEvent]) -> KernelEvent:
    if event.position or event.last_seconds is None:
        return event
    driver, seconds = event.code.partition("_")[0], event.last_seconds
    near = {
        other.position
        for other in events
        if other.code.partition("_")[0] == driver
        and other.position
        and other.last_seconds is not None
        and abs(other.last_seconds - seconds) <= NEAR_SECONDS
    }
    return replace(event, position=near.pop()) if len(near) == 1 else event


@cache
def _list_rules(site_rules: tuple[KernelRule, ...]) -> tuple[tuple[Any, ...], ...]:
    return list_agent_rules(site_rules)


def _read_groups(raw: Raw, rules: Sequence[Any]) -> Iterator[_Group]:
    """Yield a record's groups. Records of older agents have lines, which are grouped now."""
    entries = raw.get("groups")
    if not isinstance(entries, list):
        lines = [str(line)[:MAX_CHARACTERS] for line in list_or_empty(raw.get("lines"))]
        entries = group_hardware_errors("\n".join(lines), rules)["groups"]
    for entry in map(mapping_or_empty, entries[:MAX_EVENTS]):
        times = [to_finite_number(value) for value in list_or_empty(entry.get("times"))[:16]]
        yield _Group(
            str(entry.get("line"))[:MAX_CHARACTERS],
            max(1, int(to_finite_number(entry.get("count")) or 1)),
            to_finite_number(entry.get("first")),
            to_finite_number(entry.get("last")),
            tuple(value for value in times if value is not None),
            tuple(_read_bursts(entry.get("bursts"))),
        )


def _read_bursts(value: Any) -> Iterator[tuple[float, float]]:
    for pair in list_or_empty(value)[:16]:
        first, last = (to_finite_number(entry) for entry in (*list_or_empty(pair)[:2], None, None)[:2])
        if first is not None and last is not None and first <= last:
            yield first, last


def _build_event(group: _Group, rule: KernelRule, device: str, devices: Raw) -> KernelEvent:
    position = _normalize_position(rule.part, device)
    part_kind, position = _find_part(rule.part, position, devices)
    outcome = rule.outcome
    if rule.storm and is_storm(group, rule.storm):
        outcome = "review"
    if rule.at_boot and group.last is not None and group.last < BOOT_SECONDS:
        outcome = rule.at_boot
    event = KernelEvent(
        f"kernel.{rule.id}", part_kind, position, outcome, rule.steps, make_printable(group.line, MAX_CHARACTERS),
        group.count, group.first, group.last, rule.meaning, group.times, group.bursts,
    )  # fmt: skip
    return _read_xid(event, group.line) if outcome == XID_RULE else event


def _read_xid(event: KernelEvent, line: str) -> KernelEvent:
    """Return the event of an XID's line: outcome, steps and meaning are those of its code."""
    match = XID.search(line)
    if match is None:  # a site's rule that calls itself an XID
        return replace(event, outcome="review")
    number = int(match[2])
    action = RECOVERY_ACTION.search(match[3])
    code = f"xid_{number}" + (f".{int(action[1], 16)}" if action else "")
    outcome = classify_xid(number, match[3])
    ladder = choose_ladder(code)
    meaning = ladder.meaning if action else describe_xid(number)
    return replace(event, code=code, outcome=outcome, steps=ladder.steps, meaning=meaning)


def is_storm(group: _Group, storm: Storm) -> bool:
    """Return whether events came at the rate of a storm: on the whole, or the last few of them."""
    if group.count < storm.count:
        return False
    spans = [(group.count, group.first, group.last)]
    if group.times:
        spans.append((len(group.times), min(group.times), max(group.times)))
    timed = [(count, last - first) for count, first, last in spans if first is not None and last is not None]
    if not timed:
        return group.count >= UNTIMED_FACTOR * storm.count
    return any((count - 1) * storm.seconds >= storm.count * span for count, span in timed if count > 1)


def _normalize_position(part: str, device: str) -> str:
    """Return a device's name as records have it: a PCI address as in sysfs, a disk without its partition."""
    if part == "drive" and (disk := DISK.search(device)):
        return f"{disk[1]}{disk[2] or 'n1'}" if disk[1] else disk[3]
    return normalize_pci(device) or make_printable(device, 40)


def _find_part(part: str, position: str, devices: Raw) -> tuple[str, str]:
    """Return which part is at a PCI address, by what the record says of the devices there."""
    device = mapping_or_empty(devices.get(position))
    if not device or part not in (*PCI_PARTS, "drive"):
        return part, position
    code = str(device.get("class"))
    kind = next((kind for start, kind in CLASSES if code.startswith(start)), part)
    drive = device.get("drive")
    if kind == "drive" and isinstance(drive, str) and re.fullmatch(r"nvme\d{1,4}", drive):
        return kind, f"{drive}n1"
    return (kind if part in ("pcie", kind) else part), position


def normalize_pci(address: str) -> str:
    """Return a PCI address as sysfs writes it, ``0000:18:00.0``; empty for anything else."""
    match = PCI_ADDRESS.search(address)
    return f"{(match[1] or '0000')[-4:]}:{match[2]}.{match[3] or 0}".lower() if match else ""


@cache
def load_xid_rows() -> dict[int, Any]:
    """Return the rows of NVIDIA's catalogue by code."""
    return {row.get_integer("code"): row for row in read_packaged_rows("gpufleet.burnin", "data/xid.csv")}


def describe_xid(code: int) -> str:
    """Return what NVIDIA's catalogue says of a code."""
    row = load_xid_rows().get(code)
    if row is None:
        return "NVIDIA's catalogue does not have this code"
    return (
        "NVIDIA's catalogue lists this code as unused"
        if row["description"] == "Unused"
        else str(row["description"])
    )


def get_xid_class(code: int) -> str:
    """Return an XID's class; one that the catalogue does not know is fatal until someone has looked."""
    row = load_xid_rows().get(code)
    return str(row["class"]) if row is not None else "fatal"


def classify_xid(code: int, text: str) -> str:
    """Return an XID's outcome by its class and the text behind its code."""
    kind = get_xid_class(code)
    if kind == "recovery_action":
        action = RECOVERY_ACTION.search(text)
        return "record" if action and int(action[1], 16) == 0 else "fatal"
    if kind == "nvlink":
        return "review" if NONFATAL.search(text) else "fatal"
    return "record" if kind == "ignore" else kind


def drop_revoked_events(events: list[KernelEvent]) -> list[KernelEvent]:
    """Leave out events that a later one of the same GPU takes back: power smoothing is there again after XID 162."""
    return [
        event
        for number, event in enumerate(events)
        if not any(
            later.code == REVOKED_BY.get(event.code) and later.position == event.position
            for later in events[number + 1 :]
        )
    ]


def drop_outdated_recovery_actions(events: Iterable[KernelEvent]) -> list[KernelEvent]:
    """Leave each GPU its last recovery action: `None` after a reset cancels the one before."""
    kept: dict[object, KernelEvent] = {}
    for number, event in enumerate(events):
        kept[event.position if event.code.partition(".")[0] == "xid_154" else number] = event
    return list(kept.values())

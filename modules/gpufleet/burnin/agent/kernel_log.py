"""Group the kernel log's events: a storm of ten thousand lines becomes a few groups, none is cut off."""

from __future__ import annotations

import re
from typing import Any, Match, Sequence, Tuple  # noqa: UP035 - Python 3.9 runs this

from .kernel_words import KERNEL_RULES

Rule = Tuple[str, Sequence[str], str, int]  # noqa: UP006 - as above
# What stands before a message: priority, time and host of a syslog, facility, time since boot, caller.
PREFIX = re.compile(
    r"^(?:<\d{1,3}>)?(?:[a-z]{1,10} *: ?[a-z]{1,10} *: )?"
    r"(?:(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S{1,32}) )?(?:(?:[\w.-]{1,64} )?kernel: ?)?"
    r"(?:\[ *(?P<seconds>\d{1,12}(?:\.\d{1,9})?)\] ?|\[(?:[A-Z][a-z]{2}[ \d][^\]]{1,32}| *\+\d{1,9}\.\d{1,9})\] ?)?"
    r"(?:\[ *[TC]\d{1,9}\] ?)?"
)
XID = re.compile(r"NVRM: Xid \(([^)]{1,40})\)[^:]{0,40}: (\d{1,6})")
PCI = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
DEVICE = re.compile(rf"\b(?:{PCI}|nvme\d{{1,4}}|sd[a-z]{{1,3}}|mmcblk\d{{1,3}}|mmc\d{{1,3}}|MC\d{{1,3}})\b")
# By what two events of one XID differ: the place of 13, the cause of 45, the link and the registers of 74.
XID_DETAILS = {
    "13": re.compile(r"GPC \d{1,3}, TPC \d{1,3}"),
    "45": re.compile(r"previous Xid \d{1,6}"),
    "74": re.compile(r"(?:\blink -?\d{1,4} ?)?\(0x[0-9a-fA-Fx, ]{1,120}"),
}
SEVERITY = re.compile(r"\b(non-?fatal|fatal)\b", re.IGNORECASE)
# One report of the firmware is a block of lines with the same number; what of it is kept, in one line.
CPER = re.compile(r"^\{(\d{1,9})\}\[Hardware Error\]: {1,16}(.{1,200})")
CPER_FIELDS = (
    "event severity:",
    "section_type:",
    "section type:",
    "error_type:",
    "device_id:",
    "DIMM location",
)
# The driver prints these over several lines, each with its name in front.
NVRM_HEAD = "NVRM: The NVIDIA GPU"
# A rule's rank: 0 fatal, 1 to be looked at, 2 recorded; the worse kinds have more room on a hostile log.
RECORDED, ROOM = 2, (6, 4, 2)
MAX_GROUPS, MAX_CHARACTERS, MAX_TIMES, MAX_DETAILS = 300, 240, 8, 16
# The lines of an XID with no longer gap are one burst; where there are more, those closest together are joined.
BURST_SECONDS, MAX_BURSTS = 15.0, 8


def find_rule(text: str, rules: Sequence[Rule]) -> tuple[Rule, Match[str]] | None:
    """Return the first rule that matches a line, with its match."""
    for rule in rules:
        if any(word in text for word in rule[1]):
            match = re.search(rule[2], text)
            if match:
                return rule, match
    return None


def find_device(match: Match[str]) -> str:
    """Return the device that a line names: by the rule's own group, else the first that looks like one."""
    named = match.groupdict().get("at")
    if named:
        return str(named)
    device = DEVICE.search(match.string)
    return device[0] if device else ""


def build_group_key(text: str, rule_id: str, match: Match[str]) -> tuple[str, ...]:
    """Return what equal events have in common: rule and device, and for an XID its code, severity and details."""
    key = (rule_id, find_device(match), match.groupdict().get("key") or "")
    xid = XID.search(text)
    if not xid:
        return (*key, "", "")
    severity = SEVERITY.search(text)
    details = XID_DETAILS[xid[2]].search(text, xid.end()) if xid[2] in XID_DETAILS else None
    return (*key, severity[1].lower() if severity else "", details[0] if details else "")


def extend_bursts(bursts: list[list[float]], seconds: float) -> None:
    """Add the time of one more line to the bursts of its group, as first and last second of each."""
    if bursts and seconds - bursts[-1][1] <= BURST_SECONDS:
        bursts[-1][1] = max(seconds, bursts[-1][1])
        return
    bursts.append([seconds, seconds])
    if len(bursts) > MAX_BURSTS:
        gaps = [bursts[number + 1][0] - bursts[number][1] for number in range(MAX_BURSTS)]
        place = gaps.index(min(gaps))
        bursts[place : place + 2] = [[bursts[place][0], bursts[place + 1][1]]]


class KernelErrorGroups:
    """Each kind of event with its count, its last line and the times, in the order in which the last ones came."""

    def __init__(self, rules: Sequence[Rule] = KERNEL_RULES) -> None:
        self.rules = rules
        self.words = list(dict.fromkeys(word for rule in rules for word in rule[1]))
        self.groups: dict[tuple[str, ...], dict[str, Any]] = {}
        self.ranks: dict[tuple[str, ...], int] = {}
        self.details: dict[tuple[str, ...], int] = {}
        self.count = self.dropped = 0
        self.pending = ""
        self.seconds: float | None = None
        self.block: list[str] = []
        self.block_number = ""

    def add(self, line: str) -> None:
        """Take in one line of the log; a continuation line is joined to the one before."""
        prefix = PREFIX.match(line)
        text = line[prefix.end() if prefix else 0 :][:MAX_CHARACTERS].rstrip()
        is_indented = line[:1].isspace()
        is_nvrm = self.pending.startswith(NVRM_HEAD) and text.startswith("NVRM: ")
        if self.pending and (is_indented or (is_nvrm and not self.pending.endswith("."))):
            rest = text[6:] if is_nvrm else text
            self.pending = f"{self.pending} {rest.strip()}"[:MAX_CHARACTERS]
            return
        self._flush()
        self.pending = text.strip()
        stamp = prefix["seconds"] if prefix else None
        self.seconds = float(stamp) if stamp else None

    def _flush(self) -> None:
        """Count the line that is whole now."""
        text, self.pending = self.pending, ""
        block = CPER.match(text)
        if self.block and (block is None or block[1] != self.block_number):
            self._close_block()
        if block is None:
            self._count(text)
        elif block[1] == self.block_number and self.block:
            self._keep_of_block(block[2])
        else:
            self.block_number, self.block = block[1], ["CPER"]
            self._keep_of_block(block[2])

    def _keep_of_block(self, text: str) -> None:
        field = text.strip()
        if field.startswith(CPER_FIELDS) and len(self.block) < len(CPER_FIELDS) and field not in self.block:
            self.block.append(field)

    def _close_block(self) -> None:
        text, self.block = "; ".join(self.block), []
        self._count(text)

    def _count(self, text: str) -> None:
        text = text[:MAX_CHARACTERS]
        # Most lines have none of the words: one pass over all of them is faster than one for each rule.
        found = find_rule(text, self.rules) if [word for word in self.words if word in text] else None
        if found is None:
            return
        rule, match = found
        self.count += 1
        key = build_group_key(text, rule[0], match)
        if key not in self.groups:
            key = self._admit(key, rule[3])
        if not key:
            return
        group = self.groups.pop(key, {"count": 0})
        group.update(line=text, count=group["count"] + 1)
        if self.seconds is not None:
            group.setdefault("first", self.seconds)
            group.update(last=self.seconds, times=[*group.get("times", []), self.seconds][-MAX_TIMES:])
            if XID.search(text):
                extend_bursts(group.setdefault("bursts", []), self.seconds)
        self.groups[key] = group

    def _admit(self, key: tuple[str, ...], rank: int) -> tuple[str, ...]:
        """Return the key of a new group, or an empty one where a hostile log has used up all of them."""
        if key[-1]:
            self.details[key[:-1]] = self.details.get(key[:-1], 0) + 1
            if self.details[key[:-1]] > MAX_DETAILS:
                key = (*key[:-1], "")
        # The worse kinds have room of their own, whatever came before.
        if key not in self.groups and len(self.groups) >= MAX_GROUPS * ROOM[rank]:
            self.dropped += rank < RECORDED
            return ()
        self.ranks[key] = rank
        return key

    def summarize(self) -> dict[str, Any]:
        """Return the groups as a record keeps them: where they are too many, the worst kinds are kept."""
        self._flush()
        if self.block:
            self._close_block()
        kept = set(sorted(self.groups, key=self.ranks.__getitem__)[:MAX_GROUPS])
        lost = sum(self.ranks[key] < RECORDED for key in self.groups if key not in kept)
        groups = [group for key, group in self.groups.items() if key in kept]
        return {"groups": groups, "count": self.count, "dropped_groups": lost + self.dropped}


def group_hardware_errors(log: str, rules: Sequence[Rule] = KERNEL_RULES) -> dict[str, Any]:
    """Return the groups of a whole log."""
    groups = KernelErrorGroups(rules)
    for line in log.splitlines():
        groups.add(line)
    return groups.summarize()

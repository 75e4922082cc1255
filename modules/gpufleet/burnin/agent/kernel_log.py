"""Group the kernel log's hardware errors: a storm of ten thousand lines becomes a few groups, none is cut off."""

from __future__ import annotations

import re
from typing import Any

# What checks/gpu_xid/read.py and its data judge; everything else in the log is left on the node.
INTERESTING = re.compile(
    r"NVRM: Xid |SXid \(|RmInitAdapter failed|fallen off the bus|AER: |PCIe Bus Error|\[Hardware Error\]|"
    r"amdgpu .*(?:uncorrectable hardware error|Fatal error during GPU init|GPU reset begin|ring \S+ timeout)|"
    r"EDAC .*\b(?:UE|CE)\b|Memory failure:|Out of memory|oom-kill|critical medium error|I/O error, dev nvme|"
    r"nvme nvme\d+: (?:I/O .*timeout|controller is down|Device not ready|Removing after probe failure)"
)
TIME = re.compile(r"^(?:<\d+>)?(?:\w+\s*:\w+\s*: )?(?:\[[^\]]*\]|\d{4}-\d\d-\d\dT\S+)?\s*")
XID = re.compile(r"NVRM: Xid \(([^)]*)\)[^:]*: (\d+)")
# Numbers differ from line to line of one storm: process ids, addresses, sectors.
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
MAX_GROUPS, MAX_CHARACTERS = 300, 240


def build_group_key(text: str) -> str:
    """Return what equal events have in common: GPU, code and severity of an XID, or the line without its numbers."""
    match = XID.search(text)
    if not match:
        return NUMBERS.sub("#", text)
    severity = re.search(r"\b(Non-?fatal|Fatal)\b", text, re.IGNORECASE)
    return f"{match[1]} {match[2]} {severity[1].lower() if severity else ''}"


class KernelErrorGroups:
    """Each kind of error with its count and its last line, in the order in which the last ones came."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Any]] = {}
        self.count = 0

    def add(self, line: str) -> None:
        """Take in one line of the log."""
        if not INTERESTING.search(line):
            return
        self.count += 1
        text = TIME.sub("", line, count=1)[:MAX_CHARACTERS]
        key = build_group_key(text)
        earlier = self.groups.pop(key, {"count": 0})
        self.groups[key] = {"line": text, "count": earlier["count"] + 1}

    def summarize(self) -> dict[str, Any]:
        """Return the groups as a record keeps them."""
        kept = list(self.groups.values())[:MAX_GROUPS]
        return {"groups": kept, "count": self.count, "dropped_groups": len(self.groups) - len(kept)}


def group_hardware_errors(log: str) -> dict[str, Any]:
    """Return the groups of a whole log."""
    groups = KernelErrorGroups()
    for line in log.splitlines():
        groups.add(line)
    return groups.summarize()

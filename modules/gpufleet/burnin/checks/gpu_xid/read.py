"""Judge the kernel log's hardware errors: XIDs by NVIDIA's catalogue, and the kernel's own words for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.burnin.evidence import CheckReadings, Raw, mapping_or_empty, to_finite_number

CLASSES = ("fatal", "application", "review", "ignore")
XID = re.compile(r"NVRM: Xid \(([^)]*)\)[^:]*: (\d{1,6})\b(.*)", re.DOTALL)
RECOVERY_ACTION = re.compile(r"recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x([0-9a-fA-F]+) \(")
NONFATAL = re.compile(r"\bnon-?fatal\b", re.IGNORECASE)
# The kernel's and the driver's words, in this order; the first that matches decides a line's class.
LINE_CLASSES = (
    (re.compile(r"SXid \([^)]*\): \d+, Data "), "ignore"),  # details of the line before
    (re.compile(r"SXid \([^)]*\): \d+, Fatal", re.IGNORECASE), "fatal"),
    (re.compile(r"SXid \("), "review"),
    (re.compile(r"RmInitAdapter failed|fallen off the bus"), "fatal"),
    # amdgpu's words: github.com/ROCm/legacy-rocm-build/issues/4021 and 1552, github.com/ROCm/amdgpu/issues/202
    (re.compile(r"amdgpu .*(?:uncorrectable hardware error|Fatal error during GPU init)"), "fatal"),
    (re.compile(r"amdgpu .*(?:GPU reset begin|ring \S+ timeout)"), "review"),
    (re.compile(r"(?:AER|PCIe Bus Error).*(?:severity=)?Uncorrect(?:ed|able) \(Fatal\)"), "fatal"),
    (re.compile(r"(?:AER|PCIe Bus Error).*Uncorrect(?:ed|able)"), "review"),
    (re.compile(r"EDAC .*\bUE\b|Memory failure:|Uncorrected error|Uncorrected, software"), "fatal"),
    (re.compile(r"\[Hardware Error\].*event severity: (?:fatal|recoverable)"), "fatal"),
    (re.compile(r"mce: \[Hardware Error\]"), "review"),
    (
        re.compile(
            r"critical medium error|I/O error, dev nvme|controller is down|Device not ready|probe failure"
        ),
        "fatal",
    ),
    (re.compile(r"nvme nvme\d+: I/O .*timeout|Out of memory|oom-kill"), "review"),
)


@cache
def load_xid_classes() -> dict[int, str]:
    """Return what each XID code means for the node: a class of CLASSES, nvlink or recovery_action."""
    return {
        row.get_integer("code"): row["class"] for row in read_packaged_rows("gpufleet.burnin", "data/xid.csv")
    }


def classify_xid(code: int, text: str) -> str:
    """Return an XID's class; one that the catalogue does not know is fatal until someone has looked."""
    kind = load_xid_classes().get(code, "fatal")
    if kind == "recovery_action":
        action = RECOVERY_ACTION.search(text)
        return "ignore" if action and int(action[1], 16) == 0 else "fatal"
    if kind == "nvlink":
        return "review" if NONFATAL.search(text) else "fatal"
    return kind


def classify_line(line: str) -> str:
    """Return a line's class, or an empty text for a line that is no error."""
    match = XID.search(line)
    if match:
        return classify_xid(int(match[2]), match[3])
    return next((name for pattern, name in LINE_CLASSES if pattern.search(line)), "")


def drop_outdated_recovery_actions(events: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Leave each GPU its last recovery action: `None` after a reset cancels the one before."""
    kept: dict[str, tuple[str, float]] = {}
    for number, (line, count) in enumerate(events):
        match = XID.search(line)
        is_action = match is not None and load_xid_classes().get(int(match[2])) == "recovery_action"
        kept[f"154 {match[1]}" if match and is_action else str(number)] = (line, count)
    return list(kept.values())


def read_record(raw: Raw) -> CheckReadings:
    """Count events by class. Records of older agents have lines, of newer ones groups of equal lines."""
    groups, lines = raw.get("groups"), raw.get("lines")
    if isinstance(groups, list):
        entries = [mapping_or_empty(group) for group in groups]
        events = [(str(entry.get("line")), to_finite_number(entry.get("count")) or 1.0) for entry in entries]
    elif isinstance(lines, list):
        events = [(str(line), 1.0) for line in lines]
    else:
        return CheckReadings(unreadable="the record contains no list of kernel log lines")
    counts = dict.fromkeys(CLASSES, 0.0)
    for line, count in drop_outdated_recovery_actions(events):
        if kind := classify_line(line):
            counts[kind] += count
    if raw.get("dropped_groups") and not counts["fatal"]:
        return CheckReadings(unreadable="the kernel log has more kinds of errors than a record holds")
    return CheckReadings(counts, sum(counts.values()), "events")

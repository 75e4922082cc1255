"""The next step for a faulty part: one visible table of steps, and a part's ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.event_rule import list_rule_names, load_event_rules, load_repairs_rule
from gpufleet.burnin.kernel_rule import XID_RULE, load_kernel_rules
from gpufleet.nodes.part import REPAIR_ACTIONS, RepairEntry

MEASURE, AWAIT, REPLACE_NODE = "burn_in", "await", "replace_node"
STEP_MEANINGS = {
    **REPAIR_ACTIONS,
    MEASURE: "measure the node again: gpufleet burnin run NODE",
    AWAIT: "wait for the vendor; record `replace` when another part is in its place",
    REPLACE_NODE: "release the rented node and let another take its place: gpufleet nodes replace NODE",
}
PHYSICAL = frozenset({"rma", "reseat", "inspect", "replace"})
"""Steps that need hands on the hardware, which a rented node does not allow."""


@dataclass(frozen=True)
class RepairLadder:
    """The steps for a class of faults, mildest first: each is tried after the one before did not last."""

    fault: str
    vendor_action: str
    steps: tuple[str, ...]
    meaning: str
    source: str
    date: str


@dataclass(frozen=True)
class OpenFault:
    """A fault of a part that no later measurement cleared, with the step that follows."""

    fault: str
    first: RepairEntry
    last: RepairEntry
    count: int
    step: str
    ladder: RepairLadder
    rule: str = ""
    """Why the step is not the ladder's: what a rule over time found."""


@cache
def load_repair_ladders() -> tuple[RepairLadder, ...]:
    """Return the steps of all faults, those of the checks' folders included; the first row that fits a fault counts."""
    own = [
        RepairLadder(
            f"{name}.{entry.metric}", "", entry.steps, entry.meaning, entry.source, entry.date.isoformat()
        )
        for name, check in load_checks().items()
        for entry in check.repair
    ]
    own += [
        RepairLadder(rule.rule, "", rule.steps, rule.meaning, rule.source, rule.date.isoformat())
        for rule in load_event_rules()
        if rule.steps
    ]
    shared = [
        RepairLadder(**{**row, "steps": tuple(row["steps"].split(";"))})  # type: ignore[arg-type]
        for row in read_packaged_rows("gpufleet.burnin", "data/repair_steps.csv")
    ]
    kernel = [
        RepairLadder(f"kernel.{rule.id}", "", rule.steps, rule.meaning, rule.source, rule.date.isoformat())
        for rule in load_kernel_rules()
        if rule.outcome != XID_RULE
    ]
    return tuple(sorted([*own, *kernel, *shared], key=count_open_names))


def count_open_names(ladder: RepairLadder) -> int:
    """Return how much a row leaves open: 0 if it names a metric, 1 for all others of a check, 2 for all of several."""
    if not ladder.fault.endswith("*"):
        return 0
    return 1 if "." in ladder.fault else 2


@cache
def load_xid_actions() -> dict[int, str]:
    """Return NVIDIA's immediate action for each XID."""
    rows = read_packaged_rows("gpufleet.burnin", "data/xid.csv")
    return {row.get_integer("code"): row["immediate"] for row in rows}


def choose_ladder(fault: str) -> RepairLadder:
    """Return the steps for a fault: those of NVIDIA's action for an XID, else of the first pattern that fits.

    The recovery action that a check reads of the driver is the one that XID 154 reports in the kernel log.
    """
    ladders = load_repair_ladders()
    if match := re.fullmatch(r"gpu_[a-z]+\.recovery_action\.(\d)", fault):
        fault = f"xid_154.{match[1]}"
    exact = next((ladder for ladder in ladders if ladder.fault == fault), None)
    if exact is not None:
        return exact
    if match := re.fullmatch(r"xid_(\d{1,6})(?:\.\d+)?", fault):
        by_action = {ladder.vendor_action: ladder for ladder in ladders if ladder.fault == "xid"}
        return by_action.get(load_xid_actions().get(int(match[1]), ""), by_action[""])
    return next(ladder for ladder in ladders if fnmatchcase(fault, ladder.fault))


def find_open_faults(
    entries: Sequence[RepairEntry], *, is_rented: bool = False, node_repairs: Iterable[datetime] = ()
) -> list[OpenFault]:
    """Return a part's faults that are not cleared, oldest first, each with its next step.

    ``node_repairs`` are the times of all repairs of its node: after too many of them the next step is the vendor's.
    """
    names = dict.fromkeys(entry.name for entry in entries if entry.event == "fault")
    repairs = sorted(set(node_repairs))
    found = (_follow_fault(name, entries, repairs, is_rented=is_rented) for name in names)
    return [fault for fault in found if fault is not None]


def _follow_fault(
    name: str, entries: Iterable[RepairEntry], repairs: Sequence[datetime], *, is_rented: bool
) -> OpenFault | None:
    """Follow one fault through a ledger.

    Until an action is recorded the same fault is one occurrence, however often it is measured. The step after a
    recurrence is the one behind the strongest step that was done. A fault that a rule over time found is in no single
    measurement, so that one without it does not clear the fault: one of its own steps must be recorded too.
    """
    ladder = choose_ladder(name)
    is_over_time = name in list_rule_names()
    seen: list[RepairEntry] = []
    strongest, is_passed, last_action = -1, True, ""
    for entry in entries:
        if entry.event == "fault" and entry.name == name:
            seen.append(entry)
            is_passed, last_action = False, ""
        elif entry.event == "passed" and entry.name == name:
            is_passed = True
        elif entry.event == "action" and seen:
            if is_over_time and entry.name not in (*ladder.steps, "replace"):
                continue
            last_action = entry.name
            if entry.name == "replace":
                is_passed, strongest = True, -1
            elif entry.name in ladder.steps:
                strongest = max(strongest, ladder.steps.index(entry.name))
    if is_passed and (last_action or not is_over_time):
        return None
    rule = "" if last_action else describe_repeated_repairs(seen[-1].at, repairs)
    if last_action:
        step = AWAIT if last_action == "rma" else MEASURE
    elif rule:
        step = load_repairs_rule().step
    else:
        step = ladder.steps[min(strongest + 1, len(ladder.steps) - 1)]
    if is_rented and step in (*PHYSICAL, AWAIT):
        step = REPLACE_NODE
    return OpenFault(name, seen[0], seen[-1], len(seen), step, ladder, rule)


def describe_repeated_repairs(fault_at: datetime, repairs: Sequence[datetime]) -> str:
    """Return what the rule on repairs of a node says of a fault at a time; empty where it does not apply."""
    rule = load_repairs_rule()
    first = fault_at - timedelta(hours=rule.within_h)
    count = sum(first <= at <= fault_at for at in repairs)
    if count < rule.count:
        return ""
    return f"{count} repairs of the node in {rule.within_h / 24:g} days: {rule.meaning}"

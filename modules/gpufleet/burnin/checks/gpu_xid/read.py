"""Judge the kernel log: XIDs by NVIDIA's catalogue, all other events by the dictionary, each named with its step."""

from __future__ import annotations

from gpufleet.burnin.evidence import CheckReadings, Raw
from gpufleet.burnin.kernel_event import read_kernel_events
from gpufleet.burnin.kernel_rule import KernelRule
from gpufleet.burnin.log_event import KernelEvent

# Metrics by outcome.
METRICS = {"fatal": "fatal", "application": "application", "review": "review", "record": "recorded"}
STEP_TEXT = {
    "reset": "reset", "reboot": "reboot", "reseat": "reseat", "inspect": "look at it",
    "diagnose": "field diagnostics", "rma": "RMA", "replace": "replace",
}  # fmt: skip
MAX_NAMED = 3
LONGEST_MEANING, LONGEST_RULE_MEANING = 120, 240


def read_record(raw: Raw, site_rules: tuple[KernelRule, ...] = ()) -> CheckReadings:
    """Count events by outcome, and name the worst of each."""
    if not isinstance(raw.get("groups"), list) and not isinstance(raw.get("lines"), list):
        return CheckReadings(unreadable="the record contains no list of kernel log lines")
    events = read_kernel_events(raw, site_rules)
    counts = dict.fromkeys(METRICS.values(), 0.0)
    for event in events:
        counts[METRICS[event.outcome]] += event.count
    if raw.get("dropped_groups") and not counts["fatal"]:
        return CheckReadings(unreadable="the kernel log has more kinds of errors than a record holds")
    explanations = {
        metric: describe_events([event for event in events if event.outcome == outcome])
        for outcome, metric in METRICS.items()
        if counts[metric]
    }
    return CheckReadings(counts, sum(counts.values()), "events", explanations=explanations)


def describe_events(events: list[KernelEvent]) -> str:
    """Return the worst events with code, device and steps, then how many more there are."""
    worst_first = sorted(events, key=lambda event: list(STEP_TEXT).index(event.steps[0]), reverse=True)
    texts = list(dict.fromkeys(describe_event(event) for event in worst_first))
    more = len(texts) - MAX_NAMED
    return "; ".join([*texts[:MAX_NAMED], *([f"and {more} more"] if more > 0 else [])])


def describe_event(event: KernelEvent) -> str:
    """Return one event: code, device, meaning and steps; what a rule over time found names code and device itself."""
    kind, _, code = event.code.partition("xid_")
    name = f"XID {code}" if code and not kind else event.code.removeprefix("kernel.")
    at = f" on {event.position}" if event.position else ""
    times = f" ({event.count} times)" if event.count > 1 else ""
    steps = ", then ".join(STEP_TEXT.get(step, step) for step in event.steps)
    if event.rule:
        return f"{event.meaning[:LONGEST_RULE_MEANING]}: {steps}"
    return f"{name}{at}{times}: {event.meaning[:LONGEST_MEANING]}: {steps}"

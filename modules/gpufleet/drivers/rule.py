"""A rule's words for one host, as a reason or as a refusal."""

from __future__ import annotations

from gpufleet.drivers.model import Reason, Refusal
from gpufleet.drivers.table import load_rules, load_sources


class PlanRefused(Exception):  # noqa: N818 - an answer of the planner, caught by it; never seen outside
    """Carries the refusal out of the middle of a plan."""

    def __init__(self, refusal: Refusal, reason: Reason) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.reason = reason


def build_reason(code: str, source_id: str = "", **values: object) -> Reason:
    """Return the reason of this code in words for the host; a row's own source may stand for the rule's."""
    rule = load_rules()[code]
    source = load_sources()[source_id or rule["source"]]
    return Reason(code, rule["message"].format(**values), f"{source['title']} ({source['as_of']})")


def build_refusal(code: str, source_id: str = "", **values: object) -> PlanRefused:
    """Return what to raise: the refusal of this code, with its remedy."""
    reason = build_reason(code, source_id, **values)
    return PlanRefused(Refusal(code, reason.message, load_rules()[code]["remedy"].format(**values)), reason)

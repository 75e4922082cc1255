"""Build reasons and refusals from the rules in ``data/rules.yaml``."""

from __future__ import annotations

from gpufleet.drivers.data_file import load_rules, load_sources
from gpufleet.drivers.driver_plan import Reason, Refusal


class PlanRefused(Exception):  # noqa: N818 - a result, caught by the planner
    """Ends planning with a refusal."""

    def __init__(self, refusal: Refusal, reason: Reason) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.reason = reason


def build_reason(code: str, source_id: str = "", **values: object) -> Reason:
    """Return the reason of this code with its values; ``source_id`` replaces the rule's source."""
    rule = load_rules()[code]
    source = load_sources()[source_id or rule.source]
    return Reason(code, rule.reason.format(**values), f"{source['title']} ({source['as_of']})")


def build_refusal(code: str, source_id: str = "", **values: object) -> PlanRefused:
    """Return the exception for the refusal of this code."""
    reason = build_reason(code, source_id, **values)
    return PlanRefused(Refusal(code, reason.message, load_rules()[code].remedy.format(**values)), reason)

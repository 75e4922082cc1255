"""Build reasons and refusals from the rules in ``data/rules.yaml``."""

from __future__ import annotations

from gpufleet.drivers.data_file import load_driver_data_sources, load_plan_rules
from gpufleet.drivers.driver_plan import PlanReason, PlanRefusal


class PlanRefusedError(Exception):
    """Ends planning with a refusal."""

    def __init__(self, refusal: PlanRefusal, reason: PlanReason) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.reason = reason
        self.notes: tuple[PlanReason, ...] = ()


def build_plan_reason(code: str, source_id: str = "", **values: object) -> PlanReason:
    """Return the reason of this code with its values; ``source_id`` replaces the rule's source."""
    rule = load_plan_rules()[code]
    source = load_driver_data_sources()[source_id or rule.source]
    return PlanReason(code, rule.reason.format(**values), f"{source['title']} ({source['as_of']})")


def build_refusal_error(code: str, source_id: str = "", **values: object) -> PlanRefusedError:
    """Return the exception for the refusal of this code."""
    reason = build_plan_reason(code, source_id, **values)
    return PlanRefusedError(
        PlanRefusal(code, reason.message, load_plan_rules()[code].remedy.format(**values)), reason
    )

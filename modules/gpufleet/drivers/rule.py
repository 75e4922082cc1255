"""A rule's words for one host, as a reason or as a refusal."""

from __future__ import annotations

from gpufleet.drivers.model import Reason, Refusal
from gpufleet.drivers.tables import rules, sources


class Refused(Exception):  # noqa: N818 - an answer of the planner, caught by it; never seen outside
    """Carries the refusal out of the middle of a plan."""

    def __init__(self, refusal: Refusal, reason: Reason) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.reason = reason


def because(code: str, origin_of_rule: str = "", **values: object) -> Reason:
    """Return the reason of this code in words for the host; a row's own source may stand for the rule's."""
    rule = rules()[code]
    source = sources()[origin_of_rule or rule["source"]]
    return Reason(code, rule["message"].format(**values), f"{source['title']} ({source['as_of']})")


def refuse(code: str, origin_of_rule: str = "", **values: object) -> Refused:
    """Return what to raise: the refusal of this code, with its remedy."""
    reason = because(code, origin_of_rule, **values)
    return Refused(Refusal(code, reason.message, rules()[code]["remedy"].format(**values)), reason)

"""A burn-in report: the verdict, its checks, and the JSON that others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.boundary import read_packaged_json

# Worst first: a measured failure outweighs what was not measured, and that outweighs a warning.
OUTCOMES = ("fail", "not_run", "warn", "pass")
HEADER_FIELDS = ("attempt", "node", "profile", "verdict", "started_at", "ended_at")
MISSING_END = "the record has no end: the agent was stopped or the node went down"
REHEARSED = "rehearsed host"  # in the source of every bound that only a rehearsal has
VERDICTS = ("healthy", "degraded", "faulty", "incomplete")


@dataclass(frozen=True)
class CheckResult:
    """One judged check, with the bound that decided it and where that comes from."""

    name: str
    outcome: str
    measured: float | str | None = None
    unit: str = ""
    threshold: float | str | None = None
    threshold_source: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BurninReport:
    """One attempt, judged."""

    attempt: str
    node: str
    profile: str
    verdict: str
    started_at: str | None
    ended_at: str | None
    checks: tuple[CheckResult, ...]
    required: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the report in its stable shape (schema: report.schema.json)."""
        head = {name: getattr(self, name) for name in HEADER_FIELDS}
        return {**head, "checks": [vars(check) | {} for check in self.checks]}

    def list_unhealthy_reasons(self) -> list[str]:
        """Return what keeps the node from being healthy, worst first, one line each."""
        failing_checks = [
            check
            for check in self.checks
            if check.outcome in {"fail", "warn"}
            or (check.outcome == "not_run" and check.name in self.required)
        ]
        ordered = sorted(failing_checks, key=lambda check: OUTCOMES.index(check.outcome))
        cut_off = [MISSING_END] if self.ended_at is None else []
        return [*(f"{check.name}: {check.reason}" for check in ordered), *cut_off]

    def find_check_result(self, check_name: str) -> CheckResult | None:
        """Return a check by name."""
        return next((check for check in self.checks if check.name == check_name), None)


def is_rehearsed(report: Mapping[str, Any]) -> bool:
    """Return whether a stored report was judged by the bounds of rehearsed hosts, which say nothing of hardware."""
    checks = report.get("checks")
    return isinstance(checks, list) and any(
        isinstance(check, dict) and REHEARSED in str(check.get("threshold_source")) for check in checks
    )


def load_burnin_report_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report."""
    schema: dict[str, Any] = read_packaged_json("gpufleet.burnin", "data/report.schema.json")
    return schema

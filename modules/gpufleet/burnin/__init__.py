"""Burn-in: judge a node's measurements; every verdict names its thresholds and sources.

Input: the JSON lines that the agent (`burnin/agent/`, shipped to nodes as one file by `build_agent_zipapp`)
collected on a node: numbers it measured and the raw output of the tools it drove. Output: a `BurninReport` with
an outcome for every check (pass, warn, fail, not_run), the threshold that decided it with its source, and
one verdict: healthy, degraded, faulty or incomplete. Everything here but `build_agent_zipapp` is pure: the same
records under new thresholds are judged again without touching the node.
"""

from __future__ import annotations

from gpufleet.burnin.build import build_agent_zipapp
from gpufleet.burnin.check_definition import KINDS
from gpufleet.burnin.explanation import explain_check, format_explanation
from gpufleet.burnin.kernel_rule import KernelRule
from gpufleet.burnin.overrides import ThresholdOverride
from gpufleet.burnin.part import observe_parts
from gpufleet.burnin.pi import decode_throttled_flags
from gpufleet.burnin.repair_step import STEP_MEANINGS, OpenFault, find_open_faults, load_repair_ladders
from gpufleet.burnin.report import VERDICTS, BurninReport, load_burnin_report_schema
from gpufleet.burnin.threshold_lint import lint_thresholds
from gpufleet.burnin.thresholds import (
    Threshold,
    list_required_checks,
    load_thresholds,
    select_thresholds,
)
from gpufleet.burnin.verdict import judge_attempt

__all__ = [
    "KINDS",
    "STEP_MEANINGS",
    "VERDICTS",
    "BurninReport",
    "KernelRule",
    "OpenFault",
    "Threshold",
    "ThresholdOverride",
    "build_agent_zipapp",
    "decode_throttled_flags",
    "explain_check",
    "find_open_faults",
    "format_explanation",
    "judge_attempt",
    "lint_thresholds",
    "list_required_checks",
    "load_burnin_report_schema",
    "load_repair_ladders",
    "load_thresholds",
    "observe_parts",
    "select_thresholds",
]

"""``gpufleet cost diff --projects``: the projects of one repository in one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import cost
from gpufleet.cli.output import ReportOutput
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost.analysis.diff import PolicyResult


def write_projects_diff(
    file: Path,
    options: cost.CostOptions,
    report: ReportOutput,
    *,
    base: str | None,
    show_skipped: bool,
    **other_sources: Any,
) -> PolicyResult:
    """Compare every project of a list with a git ref, write the report, and return the policy's verdict.

    Commitments are refused: each project by itself would use them once more.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in other_sources.items() if value is not None]
    if given:
        raise InputError(f"cannot be combined with {', '.join(given)}", where="--projects")
    if base is None:
        raise InputError("needs --base", where="--projects", remedy="for example --base origin/main")
    combined = cost.diff_projects_against_git_ref(cost.load_project_list(file), base, options)
    report.write(lambda name: cost.render_combined(combined, name, show_skipped=show_skipped))
    return combined.total.policy

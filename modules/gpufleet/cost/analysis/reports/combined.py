"""The difference of several projects: a sum, one row for each project, details of those that changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gpufleet.boundary import make_values_printable
from gpufleet.cost.analysis.combined import CombinedDiff, ProjectDiff
from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.reports import html_page, junit, markdown, summary, table
from gpufleet.cost.analysis.reports.json_document import build_diff_document
from gpufleet.cost.formatting import format_usd

COLUMNS = ("PROJECT", "STACK", "BEFORE", "AFTER", "CHANGE")
ROW_LIMITS = (1000, 100, 30, 10, 3, 0)  # rows of each project's details, until the comment is short enough


def render_combined_markdown(combined: CombinedDiff) -> str:
    """Return one comment for all projects; details are folded, and shortened to the size of a comment."""
    changed = [project for project in combined.projects if project.is_changed]
    lead = markdown.render_headline(combined.total)
    verdict = [
        part
        for title, texts in _policy_lists(combined)
        if (part := markdown.ReportSection(markdown.bullet_lines(texts), 0, title).render_section(len(texts)))
    ]
    marker = markdown.stack_comment_marker(combined.total.stack)
    text = ""
    for limit in ROW_LIMITS:
        details = [_project_details(project, limit) for project in changed]
        lists = markdown.render_folded_lists(combined.total, limit)
        text = "\n\n".join([*lead, _project_table(combined), *verdict, *details, *lists, marker])
        if len(text) <= markdown.MAX_CHARACTERS:
            break
    return text


def _policy_lists(combined: CombinedDiff) -> list[tuple[str, list[str]]]:
    """Return what the policy forbids, and the warnings of no single project, each under a title."""
    violations = [f"{each.rule}: {each.message}" for each in combined.total.policy.violations]
    return [
        ("Policy violated", violations),
        ("Not decided", summary.format_undecided_limits(combined.total.policy)),
        ("Unknown effect on the cost", list(map(str, combined.own_unknown_changes))),
        ("Warnings", list(combined.own_warnings)),
    ]


def _project_table(combined: CombinedDiff) -> str:
    rows = [tuple(map(markdown.escape_table_cell, _project_row(project))) for project in combined.projects]
    rows += [("**Total**", "", *map(markdown.escape_table_cell, _month_cells(combined.total)))]
    head = ("| Project | Stack | Before | After | Difference |", "|:-|:-|-:|-:|-:|")
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _project_details(project: ProjectDiff, max_rows: int) -> str:
    change = format_usd(project.diff.change_usd_per_month, show_sign=True)
    body = "\n\n".join(markdown.render_change_sections(project.diff, max_rows))
    headline = markdown.escape_markdown_sentence(summary.format_change_headline(project.diff))
    return markdown.render_folded_part(f"{project.name}: {change} a month", f"{headline}\n\n{body}")


def _project_row(project: ProjectDiff) -> tuple[str, ...]:
    cells = _month_cells(project.diff)
    stack = project.diff.stack
    return (project.name, stack, *(cells if project.is_changed else (*cells[:2], "no change")))


def _month_cells(diff: CostDiff) -> tuple[str, str, str]:
    return (
        format_usd(diff.before.usd_per_month.expected),
        format_usd(diff.after.usd_per_month.expected),
        format_usd(diff.change_usd_per_month, show_sign=True),
    )


def render_combined_table(combined: CombinedDiff) -> str:
    """Return the sum and the projects, then the difference of each that changed."""
    total = combined.total
    rows = [_project_row(project) for project in combined.projects]
    lines = [summary.format_change_headline(total), *summary.format_headline_notes(total), ""]
    lines += table.align_columns(COLUMNS, [*rows, ("Total", "", *_month_cells(total))])
    for title, texts in _policy_lists(combined):
        lines += table.format_titled_list(title, texts)
    lines += table.format_titled_list("Policy met", summary.format_met_limits(total.policy))
    return "\n".join([*lines, *_changed_tables(combined)])


def _changed_tables(combined: CombinedDiff) -> Iterator[str]:
    for project in combined.projects:
        if project.is_changed:
            yield f"\n{project.name}"
            yield table.render_diff_table(project.diff)


def build_combined_document(combined: CombinedDiff) -> dict[str, Any]:
    """Return the sum as the JSON Schema of a difference describes, without lines, and each project's difference."""
    document = build_diff_document(combined.total)
    for key in ("resources", "unpriced", "usage", "skipped"):
        document.pop(key, None)
    document["name"] = document.pop("stack")
    document["projects"] = [
        {
            "name": project.name,
            "changed": project.is_changed,
            "difference": build_diff_document(project.diff),
        }
        for project in combined.projects
    ]
    return document


COMBINED_FORMATS: dict[str, Callable[[CombinedDiff], str]] = {
    "table": render_combined_table,
    "markdown": render_combined_markdown,
    "json": lambda combined: json.dumps(build_combined_document(combined), indent=2),
    "html": lambda combined: html_page.render_diff_html(combined.total),
    "junit": lambda combined: junit.render_junit_xml(combined.total),
}


def render_combined(combined: CombinedDiff, format_name: str, *, show_skipped: bool = False) -> str:
    """Return the differences of several projects in one of ``DIFF_FORMATS``, as ``render_diff`` that of one."""
    if not show_skipped:
        projects = [
            replace(project, diff=project.diff.without_skipped_resources()) for project in combined.projects
        ]
        combined = CombinedDiff(tuple(projects), combined.total.without_skipped_resources())
    shown = combined if format_name == "json" else make_values_printable(combined)
    return COMBINED_FORMATS[format_name](shown)

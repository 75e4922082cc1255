"""A difference as a comment on a pull or merge request: a headline, then the figures.

The comment ends in an invisible mark, by which ``cost comment`` finds it again. GitHub accepts 65,536 characters: a
longer comment loses its least important rows, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from gpufleet.cost.analysis.diff import CostDiff, CostDiffLine
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.analysis.reports.comment_text import (
    GITHUB,
    MAX_CELL_CHARACTERS,
    MAX_SENTENCE_CHARACTERS,
    render_html_text,
    render_text,
)
from gpufleet.cost.formatting import format_usd, format_usd_range

MAX_CHARACTERS = 65_536  # GitHub: "Body is too long (maximum is 65536 characters)"; GitLab takes a million
WEIGHTS = 4
HEAD = ("| Change | Resource | What | Purchase | Before | After | Difference |", "|:-|:-|:-|:-|-:|-:|-:|")


@dataclass(frozen=True)
class ReportSection:
    """Rows under a title; sections with a low ``priority`` are shortened first."""

    rows: tuple[str, ...]
    priority: int
    title: str = ""
    head: tuple[str, ...] = ()
    is_collapsed: bool = False

    def render_section(self, max_rows: int) -> str:
        """Return the section with at most ``max_rows`` rows, and the number of omitted ones."""
        if not self.rows:
            return ""
        omitted = len(self.rows) - max_rows
        body = "\n".join([*self.head, *self.rows[:max_rows]]) if max_rows else ""
        if omitted > 0:
            cut_text = f"{omitted} more omitted: a comment has {MAX_CHARACTERS:,} characters at most; the JSON has all."
            body = f"{body}\n\n{cut_text}".strip()
        if self.is_collapsed:
            return render_folded_part(self.title, body)
        return f"**{self.title}**\n\n{body}" if self.title else body


def render_markdown(diff: CostDiff) -> str:
    """Return the comment; unchanged lines and price sources are collapsed."""
    sections, lead_lines = _sections(diff), _headline_parts(diff)
    text = ""
    for row_limits in _shrinking_row_limits(max(len(section.rows) for section in sections)):
        parts = [
            part for section in sections if (part := section.render_section(row_limits[section.priority]))
        ]
        text = "\n\n".join([*lead_lines, *parts, stack_comment_marker(diff.stack)])
        if len(text) <= MAX_CHARACTERS:
            break
    return text


def stack_comment_marker(stack: str) -> str:
    """Return the invisible line that identifies a stack's comment."""
    return GITHUB.format_marker(quote(stack, safe=""))


def escape_table_cell(text: str) -> str:
    """Return the Markdown of a name or a figure, which may be shortened."""
    return render_text(text, max_length=MAX_CELL_CHARACTERS)


def escape_markdown_sentence(text: str) -> str:
    """Return the Markdown of a sentence, which may be longer than a cell."""
    return render_text(text, max_length=MAX_SENTENCE_CHARACTERS)


def render_folded_part(title: str, body: str) -> str:
    """Return Markdown that is folded under a title; the blank lines end GitHub's and GitLab's blocks of HTML."""
    heading = render_html_text(title, max_length=MAX_CELL_CHARACTERS)
    return f"<details>\n<summary>{heading}</summary>\n\n{body}\n\n</details>"


def _shrinking_row_limits(max_rows: int) -> Iterator[dict[int, int]]:
    """Yield row limits by section weight: first all rows, then fewer, the lowest weight first."""
    row_limits = dict.fromkeys(range(WEIGHTS), max_rows)
    yield row_limits
    for weight in row_limits:
        while row_limits[weight]:
            row_limits[weight] //= 2
            yield row_limits


def render_headline(diff: CostDiff) -> list[str]:
    """Return the headline in bold and its notes."""
    lines = [*summary.format_headline_notes(diff), _kept_policy_text(diff)]
    parts = [
        f"**{escape_markdown_sentence(summary.format_change_headline(diff))}**",
        *map(escape_markdown_sentence, lines),
    ]
    return [part for part in parts if part]


def render_change_sections(diff: CostDiff, max_rows: int) -> list[str]:
    """Return what changed, what has no price and the warnings, each with at most ``max_rows`` rows."""
    sections = [section for section in _sections(diff) if not section.is_collapsed]
    return [part for section in sections if (part := section.render_section(max_rows))]


def render_folded_lists(diff: CostDiff, max_rows: int) -> list[str]:
    """Return the folded lists of free resources and of the prices used, each with at most ``max_rows`` rows."""
    sections = (_skipped_section(diff), _price_section(diff))
    return [part for section in sections if (part := section.render_section(max_rows))]


def _skipped_section(diff: CostDiff) -> ReportSection:
    skipped = summary.format_skipped_reasons(diff.after.skipped_resources)
    return ReportSection(bullet_lines(skipped), 0, "Skipped: free resources", is_collapsed=True)


def _price_section(diff: CostDiff) -> ReportSection:
    prices = summary.format_price_sources(line.shown_charge for line in diff.lines)
    return ReportSection(bullet_lines(prices), 0, "Prices used, with date and source", is_collapsed=True)


def _headline_parts(diff: CostDiff) -> list[str]:
    """Return the headline, its notes and the totals."""
    return [*render_headline(diff), _totals_table(diff)]


def _kept_policy_text(diff: CostDiff) -> str:
    checks = diff.policy.checks
    return (
        f"Policy met: {summary.pluralize(len(checks), 'limit')} checked."
        if checks and diff.policy.passed
        else ""
    )


def _sections(diff: CostDiff) -> list[ReportSection]:
    """Return the sections in the order of the comment."""
    changed = summary.sort_lines_by_cost_change(line for line in diff.lines if line.is_changed)
    unchanged = summary.sort_lines_by_cost_change(line for line in diff.lines if not line.is_changed)
    same_title, gaps = summary.pluralize(len(unchanged), "unchanged line"), diff.gaps
    violations = (f"{each.rule}: {each.message}" for each in diff.policy.violations)
    return [
        ReportSection(bullet_lines(violations), 3, "Policy violated"),
        ReportSection(bullet_lines(summary.format_undecided_limits(diff.policy)), 3, "Not decided"),
        ReportSection(tuple(_line_row(line) for line in changed), 2, head=HEAD),
        ReportSection(bullet_lines(summary.format_unknown_changes(diff)), 2, "Unknown effect on the cost"),
        ReportSection(
            bullet_lines(summary.format_unpriced_reasons(gaps.without_price)), 1, summary.WITHOUT_PRICE
        ),
        ReportSection(bullet_lines(summary.format_unpriced_reasons(gaps.by_use)), 1, summary.BY_USE),
        ReportSection(bullet_lines(summary.format_diff_warnings(diff)), 1, "Warnings"),
        ReportSection(bullet_lines(diff.notes), 1, "Notes"),
        ReportSection(tuple(_line_row(line) for line in unchanged), 0, same_title, HEAD, is_collapsed=True),
        _skipped_section(diff),
        _price_section(diff),
    ]


def bullet_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return each sentence as an escaped bullet."""
    return tuple(f"- {escape_markdown_sentence(line)}" for line in lines)


def _totals_table(diff: CostDiff) -> str:
    """Return the totals before and after; with a range unless both are exact."""
    bills = (("Before", diff.before), ("After", diff.after))
    is_exact = all(bill.usd_per_month.is_exact for _, bill in bills)
    rows = [
        (
            name,
            format_usd(bill.usd_per_hour.expected),
            format_usd(bill.usd_per_month.expected),
            format_usd_range(bill.usd_per_month),
        )
        for name, bill in bills
    ]
    columns = 3 if is_exact else 4
    head = ("", "USD per hour", "USD per month", "Range")
    head_line, *lines = (f"| {' | '.join(map(escape_table_cell, row[:columns]))} |" for row in (head, *rows))
    return "\n".join([head_line, f"|:-|{'-:|' * (columns - 1)}", *lines])


def _line_row(line: CostDiffLine) -> str:
    shown = line.shown_charge
    cells = (
        line.op,
        f"{shown.name} {shown.component}",
        summary.format_quantity_and_item(shown) + (f" ({shown.note})" if shown.note else ""),
        summary.format_purchase_terms(shown),
        summary.format_line_amount(line, line.before),
        summary.format_line_amount(line, line.after),
        format_usd(line.change_usd_per_month, show_sign=True),
    )
    return f"| {' | '.join(escape_table_cell(cell) for cell in cells)} |"

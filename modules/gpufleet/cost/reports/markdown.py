"""A difference as a pull request comment: a sentence for whoever decides, then the figures behind it."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.cost.change import CostDiff, Line
from gpufleet.cost.reports import phrases
from gpufleet.cost.wording import span, usd

HEAD = ["| Change | Resource | What | Purchase | Before | After | Difference |", "|:-|:-|:-|:-|-:|-:|-:|"]


def diff(of: CostDiff) -> str:
    """Write the difference; unchanged lines and price sources are folded away."""
    changed = [line for line in of.lines if line.changed]
    same = [line for line in of.lines if not line.changed]
    parts = [f"**{escape(phrases.headline(of))}**", phrases.bounds(of), _policy(of), _totals(of)]
    parts += [_table(changed)] if changed else []
    parts += [_listed("Without price", phrases.gaps(of.unpriced)), _listed("Warnings", of.warnings)]
    parts += [_fold(phrases.plural(len(same), "unchanged line"), _table(same))] if same else []
    prices = phrases.sources(line.shown for line in of.lines)
    parts += [_fold("Prices used, with date and source", bullets(prices))] if prices else []
    return "\n\n".join(part for part in parts if part)


def escape(text: str) -> str:
    """Keep a name from being read as markup or as the end of a table's cell."""
    plain = text.replace("\\", "\\\\").replace("\n", " ")
    for mark in "|*_`[]$":
        plain = plain.replace(mark, f"\\{mark}")
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def bullets(lines: Iterable[str]) -> str:
    """Write a list."""
    return "\n".join(f"- {escape(line)}" for line in lines)


def _policy(of: CostDiff) -> str:
    return _listed("Policy violated", [f"{each.rule}: {each.message}" for each in of.policy.violations])


def _totals(of: CostDiff) -> str:
    rows = [
        f"| {name} | {escape(usd(bill.usd_per_hour.expected))} | {escape(usd(bill.usd_per_month.expected))} "
        f"| {escape(span(bill.usd_per_month))} |"
        for name, bill in (("Before", of.before), ("After", of.after))
    ]
    return "\n".join(["| | USD per hour | USD per month | Range |", "|:-|-:|-:|-:|", *rows])


def _table(lines: Iterable[Line]) -> str:
    return "\n".join([*HEAD, *(_row(line) for line in lines)])


def _row(line: Line) -> str:
    shown = line.shown
    cells = (
        line.op,
        f"{shown.name} {shown.component}",
        phrases.what(shown) + (f" ({shown.note})" if shown.note else ""),
        phrases.terms(shown),
        usd(line.before.usd_per_month.expected) if line.before else "-",
        usd(line.after.usd_per_month.expected) if line.after else "-",
        usd(line.usd_per_month, sign=True),
    )
    return f"| {' | '.join(escape(cell) for cell in cells)} |"


def _listed(title: str, lines: Iterable[str]) -> str:
    body = bullets(lines)
    return f"**{title}**\n\n{body}" if body else ""


def _fold(title: str, body: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"

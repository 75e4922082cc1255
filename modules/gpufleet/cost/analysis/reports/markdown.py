"""A difference as a comment on a pull or merge request: a sentence for whoever decides, then the figures behind it.

The comment ends in a mark that nobody sees, by which ``cost comment`` finds it again. GitHub takes 65,536
characters: a longer one is cut where it says least, and says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from gpufleet.cost.analysis.diff import CostDiff, Line
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.formatting import span, usd

MOST_CHARACTERS = 65_536  # GitHub: "Body is too long (maximum is 65536 characters)"; GitLab takes a million
MOST_IN_A_CELL, MOST_IN_A_SENTENCE = 200, 1000
WEIGHTS = 4
HEAD = ("| Change | Resource | What | Purchase | Before | After | Difference |", "|:-|:-|:-|:-|-:|-:|-:|")
# GitHub reads @name and #1 after it has read markdown, so that a backslash does not help (github/markup#1168).
UNSEEN = "&#8203;"


@dataclass(frozen=True)
class Section:
    """Some rows under a title; the ``weight`` tells which sections give way first when room is short."""

    rows: tuple[str, ...]
    weight: int
    title: str = ""
    head: tuple[str, ...] = ()
    folded: bool = False

    def write(self, most: int) -> str:
        """Write the section with at most so many rows, and how many it leaves out."""
        if not self.rows:
            return ""
        left_out = len(self.rows) - most
        body = "\n".join([*self.head, *self.rows[:most]]) if most else ""
        if left_out > 0:
            told = f"{left_out} more left out: a comment has {MOST_CHARACTERS:,} characters at most; the JSON has all."
            body = f"{body}\n\n{told}".strip()
        if self.folded:
            return f"<details>\n<summary>{self.title}</summary>\n\n{body}\n\n</details>"
        return f"**{self.title}**\n\n{body}" if self.title else body


def diff(of: CostDiff) -> str:
    """Write the difference; unchanged lines and price sources are folded away."""
    sections, lead = _sections(of), _lead(of)
    text = ""
    for most in _ever_less(max(len(section.rows) for section in sections)):
        parts = [part for section in sections if (part := section.write(most[section.weight]))]
        text = "\n\n".join([*lead, *parts, marker(of.stack)])
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def marker(stack: str) -> str:
    """Return the unseen line by which a stack's comment is known; two stacks have a comment each."""
    return f"<!-- gpufleet-cost:{quote(stack, safe='')} -->"


def escape(text: str, most: int = MOST_IN_A_CELL) -> str:
    """Keep a name from being read as markup, as the end of a table's cell, as a mention or as a link."""
    seen = "".join(" " if unicodedata.category(letter).startswith("C") else letter for letter in text)
    short = seen if len(seen) <= most else f"{seen[: most - 1]}…"
    marked = re.sub(r"([\\|*_`\[\]$~])", r"\\\1", short)
    return defuse(marked.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def escape_sentence(text: str) -> str:
    """Escape a sentence of ours, which may be longer than a cell."""
    return escape(text, MOST_IN_A_SENTENCE)


def defuse(text: str) -> str:
    """Break mentions, references and bare links apart by a space without width; what is broken stays as it is."""
    broken = re.sub(r"([@#])(?!(?<=&#)8203;)(?=[\w-])", rf"\1{UNSEEN}", text)
    return re.sub(r"(?i)(\bwww)\.|(\bhttps?|ftp|mailto):", lambda m: f"{m[0][:-1]}{UNSEEN}{m[0][-1]}", broken)


def _ever_less(longest: int) -> Iterator[dict[int, int]]:
    """Give ever fewer rows for each weight of a section: all of them first, the least telling give way first."""
    most = dict.fromkeys(range(WEIGHTS), longest)
    yield most
    for weight in most:
        while most[weight]:
            most[weight] //= 2
            yield most


def _lead(of: CostDiff) -> list[str]:
    """Return the sentence on top and what qualifies it."""
    said = [*summary.notes(of), _kept(of)]
    parts = [f"**{escape_sentence(summary.headline(of))}**", *map(escape_sentence, said), _totals(of)]
    return [part for part in parts if part]


def _kept(of: CostDiff) -> str:
    checks = of.policy.checks
    return (
        f"Policy kept: {summary.plural(len(checks), 'limit')} asked." if checks and of.policy.passed else ""
    )


def _sections(of: CostDiff) -> list[Section]:
    """Return what may be long, in the order of the comment."""
    changed = summary.dearest(line for line in of.lines if line.changed)
    same = summary.dearest(line for line in of.lines if not line.changed)
    prices = summary.sources(line.shown for line in of.lines)
    same_title, gaps = summary.plural(len(same), "unchanged line"), summary.gaps(of.unpriced)
    broken = (f"{each.rule}: {each.message}" for each in of.policy.violations)
    return [
        Section(_bullets(broken), 3, "Policy violated"),
        Section(tuple(_row(line) for line in changed), 2, head=HEAD),
        Section(_bullets(gaps), 1, "Without price"),
        Section(_bullets(summary.warnings(of)), 1, "Warnings"),
        Section(_bullets(of.notes), 1, "Notes"),
        Section(tuple(_row(line) for line in same), 0, same_title, HEAD, folded=True),
        Section(_bullets(prices), 0, "Prices used, with date and source", folded=True),
    ]


def _bullets(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"- {escape_sentence(line)}" for line in lines)


def _totals(of: CostDiff) -> str:
    """Write both sides' totals; a range only where there is one."""
    sides = (("Before", of.before), ("After", of.after))
    certain = all(bill.usd_per_month.is_exact for _, bill in sides)
    rows = [
        (name, usd(bill.usd_per_hour.expected), usd(bill.usd_per_month.expected), span(bill.usd_per_month))
        for name, bill in sides
    ]
    table = [("", "USD per hour", "USD per month", "Range"), (":-", "-:", "-:", "-:"), *rows]
    columns = 3 if certain else 4
    return "\n".join(f"| {' | '.join(map(escape, row[:columns]))} |" for row in table)


def _row(line: Line) -> str:
    shown = line.shown
    cells = (
        line.op,
        f"{shown.name} {shown.component}",
        summary.what(shown) + (f" ({shown.note})" if shown.note else ""),
        summary.terms(shown),
        usd(line.before.usd_per_month.expected) if line.before else "-",
        usd(line.after.usd_per_month.expected) if line.after else "-",
        usd(line.usd_per_month, sign=True),
    )
    return f"| {' | '.join(escape(cell) for cell in cells)} |"

"""Parse a report and compute its expected content from the bills, without the code under test."""

from __future__ import annotations

import html
import re
from decimal import ROUND_HALF_UP, Decimal
from html.parser import HTMLParser

CENT = Decimal("0.01")


def round_to_cents(amount):
    return Decimal(amount).quantize(CENT, rounding=ROUND_HALF_UP)


def format_dollars(amount, *, signed=False):
    """Write an amount as a person would: $1,234.50, -$3.00, with ``signed`` also +$3.00."""
    rounded = round_to_cents(amount)
    mark = "-" if rounded < 0 else "+" if signed and rounded > 0 else ""
    return f"{mark}${abs(rounded):,.2f}"


def month(charge):
    return charge.usd_per_month.expected if charge else Decimal(0)


def line_cells(line):
    """Return what every report says of one line: operation, name, three amounts."""
    resource = line.after or line.before
    return (
        line.op,
        f"{resource.name} {resource.component}",
        format_dollars(month(line.before)) if line.before else "-",
        format_dollars(month(line.after)) if line.after else "-",
        format_dollars(month(line.after) - month(line.before), signed=True),
    )


def sort_by_amount(lines):
    """Return the lines as the pages order them: what moves most first, then what costs most."""

    def weight(line):
        return -abs(month(line.after) - month(line.before)), -month(line.after or line.before)

    return sorted(lines, key=weight)


def group_by_pool(lines):
    """Return the lines with those of a pool together; the pool of the first line comes first."""
    resources = [line.after or line.before for line in lines]
    pools = [resource.pool or resource.name for resource in resources]
    order = sorted(range(len(lines)), key=lambda at: pools.index(pools[at]))
    return [lines[at] for at in order]


def is_changed(line):
    """Return whether the charge differs between before and after."""
    billed = [
        side and (side.item, side.purchase, side.quantity, side.usd_per_hour, side.hours_per_month)
        for side in (line.before, line.after)
    ]
    return billed[0] != billed[1]


def outer_cells(cells):
    """Return the cells that every report shares of a row of seven: operation, name, three amounts."""
    return (*cells[:2], *cells[-3:])


def grid_rows(text, header):
    """Return the rows under a header of a report for terminals, cut where the header's words end or begin."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.split() == header]
    if not starts:
        return []
    rows = lines[starts[0] + 1 :]
    upto = rows.index("") if "" in rows else len(rows)
    return [tuple(re.split(r"\s{2,}", row.strip())) for row in rows[:upto]]


def pipe_rows(text, columns):
    """Return the rows of Markdown's tables with so many columns, markup undone, heads left out."""
    rows = []
    for line in text.splitlines():
        cells = [unescape_text(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == columns and not set("".join(cells)) <= set(":-"):
            rows.append(tuple(cells))
    return [row for row in rows if row[0] not in ("Change", "")]


def unescape_text(text):
    """Undo what keeps a name from being markup."""
    return html.unescape(re.sub(r"`([^`\n]*)`|\\([`$-])", r"\1\2", text))


class Page(HTMLParser):
    """A page's headings, cards, list items and tables, each heading with what is under it."""

    def __init__(self, text):
        super().__init__()
        self.cards, self.lead, self.tables, self.items = [], "", {}, {}
        self._under, self._tag, self._kind, self._plot = "", "", "", 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._plot += tag == "svg"
        self._tag, self._kind = tag, dict(attrs).get("class") or ""
        if self._plot:
            return
        if tag == "h2":
            self._under = ""
        elif tag == "tr":
            self.tables.setdefault(self._under, []).append([])
        elif tag == "td":
            self.tables[self._under][-1].append("")
        elif tag == "li":
            self.items.setdefault(self._under, []).append("")
        elif tag == "div" and self._kind == "card":
            self.cards.append([])

    def handle_endtag(self, tag):
        self._plot -= tag == "svg"
        self._tag = ""

    def handle_data(self, data):
        if self._plot:
            return
        if self._tag == "h2":
            self._under += data
        elif self._tag == "td":
            self.tables[self._under][-1][-1] += data
        elif self._tag == "li":
            self.items[self._under][-1] += data
        elif self._tag in ("span", "b") and self.cards and not self._under:
            self.cards[-1].append(data)
        elif self._tag == "h1":
            self.lead += data

    def rows(self, heading):
        return [tuple(row) for row in self.tables.get(heading, []) if row]

"""A table as lines of text: columns that align in a terminal, a log and a pipe.

rich draws tables too, but its import takes 50 ms.
"""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Sequence

GAP = "  "
NARROWEST = 8  # characters of a column that is cut

line_width: int | None = None
"""Columns of the terminal that shows the lines; the command line sets it. None for files and pipes: nothing is cut."""


def align_columns(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Container[str] = (),
    optional: Sequence[str] = (),
) -> list[str]:
    """Return the header and the rows as lines without trailing spaces. ``right`` has the headings of figures.

    On a terminal that is too narrow, ``optional`` columns are left out, the first one first, and a last line names
    them. Then the widest columns of text are cut, and then the line; both end in an ellipsis.
    """
    lines = [header, *rows]
    lines, omitted = _omit_columns(lines, optional, line_width) if line_width else (lines, [])
    header = lines[0]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if line_width:
        cuttable = [index for index, name in enumerate(header) if index and name not in right]
        widths = _fit_widths(widths, cuttable, line_width)
    places = [">" if name in right else "<" for name in header]
    texts = (
        GAP.join(
            f"{_cut(cell, width):{place}{width}}"
            for cell, place, width in zip(line, places, widths, strict=True)
        ).rstrip()
        for line in lines
    )
    note = f"(too narrow here for {', '.join(omitted)}; a pipe and --json have them)" if omitted else ""
    return [*(_cut(text, line_width or len(text)) for text in texts), *textwrap.wrap(note, line_width or 80)]


def _omit_columns(
    lines: list[Sequence[str]], optional: Sequence[str], line_width: int
) -> tuple[list[Sequence[str]], list[str]]:
    """Return the lines without the first optional columns that do not fit, and the headings of those."""
    omitted: list[str] = []
    for name in (name for name in optional if name in lines[0]):
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        if sum(widths) + len(GAP) * (len(widths) - 1) <= line_width:
            break
        index = list(lines[0]).index(name)
        lines = [[*line[:index], *line[index + 1 :]] for line in lines]
        omitted.append(name)
    return lines, omitted


def format_list(lines: Iterable[str], indent: str = "  ", *, is_cut: bool = False) -> list[str]:
    """Return the entries of a list, indented; on a terminal each continues on further lines, or is cut to one."""
    if not line_width:
        return [f"{indent}{line}" for line in lines]
    if is_cut:
        return [_cut(f"{indent}{line}", line_width) for line in lines]
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line,
            max(line_width, 4 * NARROWEST),
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _fit_widths(widths: list[int], cuttable: Sequence[int], line_width: int) -> list[int]:
    """Return widths that fit the line, if the widest of the columns that may be cut suffice."""
    fitted = list(widths)
    for _ in range(sum(widths) + len(GAP) * (len(widths) - 1) - line_width):
        widest = max(cuttable, key=fitted.__getitem__, default=None)
        if widest is None or fitted[widest] <= NARROWEST:
            break
        fitted[widest] -= 1
    return fitted


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"

"""A table as lines of text: columns that align in a terminal, a log and a pipe."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

GAP = "  "


def align_columns(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Container[str] = ()
) -> list[str]:
    """Return the header and the rows as lines without trailing spaces. ``right`` has the headings of figures."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    places = [">" if name in right else "<" for name in header]
    return [
        GAP.join(
            f"{cell:{place}{width}}" for cell, place, width in zip(line, places, widths, strict=True)
        ).rstrip()
        for line in lines
    ]

"""A comment's file, read as text and written anew for a code host.

The file comes from a job that runs the pull request's program, so it may hold anything. Of its markup only the forms of
our own reports count: a paragraph, a bold one, a bullet, a row of a table, a folded part. Everything in them is text,
and ``render_text`` writes it. So a line of the result begins with what is written here, or with a rendered word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.cost.analysis.reports.comment_text import (
    CommentMarkup,
    parse_html_text,
    parse_text,
    render_html_text,
    render_text,
)

_BOLD = re.compile(r"\*\*(?P<text>.+)\*\*")
_BULLET = re.compile(r"- +(?P<text>\S.*)")
_ROW = re.compile(r"\|(?P<cells>.*[^\\])\|")
_ALIGNMENT = re.compile(r"\|(?: ?:?-+:? ?\|)+")
_CELL_END = re.compile(r"(?<!\\)\|")  # earlier versions wrote an escaped pipe into a cell
_TITLE = re.compile(r"<summary>(?P<text>.*)</summary>")
_OPEN, _CLOSE = "<details>", "</details>"
_GROUPS = ("bullet", "row")  # lines of these follow each other without a blank line


def rewrite_comment(text: str, markup: CommentMarkup) -> str:
    """Return the Markdown of a comment in which all text is displayed as text, and folded parts are complete."""
    parts: list[str] = []
    previous, is_open = "", False
    for kind, line in _render_lines(_split_lines(text), markup):
        if is_open and kind in ("open", "close"):  # our reports fold nothing inside a folded part
            parts += ["\n\n", _CLOSE]
        is_open = (is_open or kind == "open") and kind != "close"
        if line:
            parts += ["\n" if kind in _GROUPS and kind == previous else "\n\n", line]
        previous = kind
    parts += ["\n\n", _CLOSE] if is_open else []
    return "".join(parts if markup.has_html else _without_folds(parts)).lstrip("\n")


def _without_folds(parts: list[str]) -> Iterator[str]:
    """Yield separators and lines without the ends of folded parts, which have only a title there."""
    for separator, line in zip(parts[::2], parts[1::2], strict=True):
        if line != _CLOSE:
            yield from (separator, line)


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\r\n", "\n").split("\n")]


def _render_lines(lines: list[str], markup: CommentMarkup) -> Iterator[tuple[str, str]]:
    """Yield the kind and the Markdown of each line; a folded part without a title is a part called "More"."""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        title = _TITLE.fullmatch(line)
        if line == _OPEN:
            heading = _TITLE.fullmatch(following)
            yield "open", _render_title(heading["text"] if heading else "More", markup)
        elif line == _CLOSE:
            yield "close", ""
        elif not (
            title and number and lines[number - 1] == _OPEN
        ):  # else written with the part that it opens
            yield _render_line(line, markup)


def _render_title(source: str, markup: CommentMarkup) -> str:
    text = parse_html_text(source)
    if not markup.has_html:
        return f"**{render_text(text, markup)}**"
    return f"{_OPEN}\n<summary>{render_html_text(text, markup)}</summary>"


def _render_line(line: str, markup: CommentMarkup) -> tuple[str, str]:
    if _ALIGNMENT.fullmatch(line):
        return "row", line.replace(" ", "")
    if match := _ROW.fullmatch(line):
        cells = (_render_inline(cell.strip(), markup) for cell in _CELL_END.split(match["cells"]))
        return "row", f"| {' | '.join(cells)} |"
    if match := _BULLET.fullmatch(line):
        return "bullet", f"- {_render_inline(match['text'], markup)}"
    return ("text" if line else "blank"), _render_inline(line, markup)


def _render_inline(source: str, markup: CommentMarkup) -> str:
    bold = _BOLD.fullmatch(source)
    text = render_text(parse_text(bold["text"] if bold else source), markup)
    return f"**{text}**" if bold and text else text

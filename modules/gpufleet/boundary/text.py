"""Text from outside: decoded once, and made printable at every exit."""

from __future__ import annotations

import codecs
import reprlib

from gpufleet.boundary.limit import OPERATOR_FILE, DocumentLimits
from gpufleet.errors import InputError

MAX_LENGTH = 300  # characters of one value in a line that a person reads
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what PowerShell 5 writes with `>`
_PLAIN_SPACE = " "


def decode_text(content: bytes, where: str, limits: DocumentLimits = OPERATOR_FILE) -> str:
    """Return a file's text: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    if len(content) > limits.bytes:
        raise build_size_limit_error(len(content), where, limits)
    try:
        return content.decode("utf-16" if content.startswith(_WIDE) else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=where, remedy="save it as UTF-8") from None


def build_size_limit_error(size: int, where: str, limits: DocumentLimits) -> InputError:
    """Return the error for a document over its limit."""
    return InputError(
        f"is too large: {size:,} bytes", where=where, remedy=f"the limit is {limits.bytes:,} bytes"
    )


def make_printable(text: object, max_length: int | None = MAX_LENGTH) -> str:
    r"""Return a text as one line that does nothing to a terminal, a log or a reader's eye.

    Control characters, line ends, bidirectional marks, invisible and unassigned characters become escapes such as
    ``\x1b``; a longer text is cut. ``max_length=None`` cuts nothing.
    """
    line = str(text)
    if max_length is not None and len(line) > max_length:
        line = f"{line[:max_length]}…"
    if line.isascii() and line.isprintable():
        return line
    return "".join(map(_printable_character, line))


def shorten_repr(value: object, max_length: int = 60) -> str:
    """Return how a value of any size is written in Python, as the few characters that an error line shows."""
    return make_printable(_SHORT.repr(value), max_length)


def make_block_printable(
    text: object, max_line_length: int | None = None, max_lines: int | None = None
) -> str:
    """Return a text of several lines with each line printable; lines after ``max_lines`` are counted, not shown."""
    all_lines = str(text).split("\n")
    lines = [
        make_printable(line.removesuffix("\r").expandtabs(), max_line_length)
        for line in all_lines[:max_lines]
    ]
    omitted_count = len(all_lines) - len(lines)
    return "\n".join([*lines, f"({omitted_count} more lines)"] if omitted_count else lines)


def _printable_character(character: str) -> str:
    if character == _PLAIN_SPACE or (character.isprintable() and not _is_invisible(character)):
        return character
    return ascii(character)[1:-1]


def _is_invisible(character: str) -> bool:
    """Return True if a character shows nothing of its own: Unicode's default ignorable ones, and blanks.

    Python calls most of them not printable. These it prints: fillers and variation selectors, which can hide a text
    in another. U+FE0E and U+FE0F, which choose between a sign and an emoji, may stay.
    """
    if character in "\ufe0e\ufe0f":
        return False
    return (
        character in _FILLERS
        or "\ufe00" <= character <= "\ufe0d"
        or "\U000e0000" <= character <= "\U000e0fff"
    )


_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")


class _Short(reprlib.Repr):
    """Python's shortening repr, which also bounds what it converts: a number of a million digits is not written."""

    def repr_int(self, value: int, level: int) -> str:  # noqa: ARG002 - as the library calls it
        return f"a number of {value.bit_length()} bits" if value.bit_length() > 256 else repr(value)  # noqa: PLR2004


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxset = _SHORT.maxtuple = 4
_SHORT.maxlevel = 3

"""Text from outside: decoded once, and made printable at every exit."""

from __future__ import annotations

import codecs
import unicodedata

from gpufleet.boundary.limit import OPERATOR_FILE, Limits
from gpufleet.errors import InputError

LONGEST = 300  # characters of one value in a line that a person reads
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what PowerShell 5 writes with `>`
_PLAIN_SPACE = " "


def decode_text(content: bytes, where: str, limits: Limits = OPERATOR_FILE) -> str:
    """Return a file's text: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    if len(content) > limits.bytes:
        raise too_large(len(content), where, limits)
    try:
        return content.decode("utf-16" if content.startswith(_WIDE) else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", where=where, remedy="save it as UTF-8") from None


def too_large(size: int, where: str, limits: Limits) -> InputError:
    """Return the error for a document over its limit."""
    return InputError(f"is too large: {size:,} bytes", where=where, remedy=f"at most {limits.bytes:,} bytes")


def printable(text: object, longest: int | None = LONGEST) -> str:
    r"""Return a text as one line that does nothing to a terminal, a log or a reader's eye.

    Control characters, line ends, bidirectional marks, zero-width and unassigned characters become escapes such as
    ``\x1b``; a longer text is cut. ``longest=None`` cuts nothing.
    """
    shown = str(text)
    if longest is not None and len(shown) > longest:
        shown = f"{shown[:longest]}…"
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(map(_printable_character, shown))


def printable_block(text: object, longest_line: int | None = None, lines: int | None = None) -> str:
    """Return a text of several lines with each line printable; what is over ``lines`` is counted, not shown."""
    every = str(text).split("\n")
    shown = [printable(line.removesuffix("\r").expandtabs(), longest_line) for line in every[:lines]]
    left_out = len(every) - len(shown)
    return "\n".join([*shown, f"({left_out} more lines)"] if left_out else shown)


def _printable_character(character: str) -> str:
    if character == _PLAIN_SPACE or (character.isprintable() and unicodedata.category(character) != "Cf"):
        return character
    return ascii(character)[1:-1]

"""The engine's JSON, read from text; what cannot be read is told in one line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpufleet.errors import InputError

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what PowerShell 5 writes with `>`
TOO_DEEP = "nested too deep to be the engine's"


def decode_text(content: bytes, where: str) -> str:
    """Return a file's text: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    try:
        return content.decode("utf-16" if content.startswith(WIDE) else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not text in UTF-8", where=where) from None


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Name the file in an error that does not say where it is; what nobody foresaw of a shape is an error too."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        raise InputError(error.problem, where=where, key=error.key, remedy=error.remedy) from None
    except RecursionError:
        raise InputError(TOO_DEEP, where=where, remedy="give the engine's own output") from None


def read_document(text: str, where: str) -> dict[str, Any]:
    """Return the one JSON object in ``text``, which came from ``where`` (a file's name, standard input)."""
    if not text.strip():
        raise InputError(
            "empty: the engine wrote nothing", where=where, remedy="look at what `pulumi` printed"
        )
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unreadable(text, error, where) from None
    except RecursionError:
        raise InputError(TOO_DEEP, where=where, remedy="give the engine's own output") from None
    except ValueError:  # a number of more digits than Python converts
        raise InputError("not JSON: a number too long", where=where) from None
    if not isinstance(document, dict):
        raise InputError("JSON, but not an object", where=where, remedy="give the engine's own output")
    return document


def _unreadable(text: str, error: json.JSONDecodeError, where: str) -> InputError:
    place = f"{where}:{error.lineno}"
    if error.msg == "Extra data":
        return InputError("more than one JSON document", where=place, remedy="turn streaming JSON off")
    if not text.lstrip().startswith("{"):
        start = text.strip().splitlines()[0][:60]
        return InputError(f"not JSON: starts with {start!r}", where=place, remedy="add --json to the command")
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return InputError("JSON ends too early", where=place, remedy="the output was cut off; run it again")
    return InputError(f"not JSON: {error.msg}", where=place, remedy="give the engine's own output")

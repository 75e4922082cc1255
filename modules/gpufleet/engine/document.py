"""The engine's JSON, read from text; what cannot be read is told in one line."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.errors import InputError


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

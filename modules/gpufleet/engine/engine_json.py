"""The engine's JSON, read from text; a mistake becomes an error of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpufleet.boundary import ENGINE_DOCUMENT, NotJsonError, decode_json, make_printable, shorten_repr
from gpufleet.errors import InputError

REMEDY = "give the engine's own output"
# What code that expects the engine's shapes raises on another; a bug of ours would too, so the cause is chained.
UNEXPECTED = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)


@contextmanager
def add_source_to_errors(where: str) -> Iterator[None]:
    """Add the file's name to errors that have none; unexpected structures become errors too."""
    try:
        yield
    except InputError as error:
        if error.where:
            raise
        raise InputError(error.problem, where=where, key=error.key, remedy=error.remedy) from None
    except UNEXPECTED as error:
        detail = f"{type(error).__name__} {make_printable(error, 80)}"
        raise InputError(
            f"does not have the engine's structure: {detail}", where=where, remedy=REMEDY
        ) from error


def parse_engine_json(text: str, where: str) -> dict[str, Any]:
    """Return the one JSON object in ``text``, which came from ``where`` (a file's name, standard input)."""
    if not text.strip():
        raise InputError(
            "is empty: the Pulumi engine wrote nothing",
            where=where,
            remedy="read the messages that `pulumi` printed",
        )
    try:
        document = decode_json(text, where, ENGINE_DOCUMENT)
    except NotJsonError as error:
        document = _decode_between_lines(text, where)
        if document is None:
            raise _describe_invalid_json(text, error, where) from None
    if not isinstance(document, dict):
        raise InputError("is not a JSON object", where=where, remedy=REMEDY)
    return document


def _decode_between_lines(text: str, where: str) -> Any:
    """Return the one document that lines of text surround, such as those of policy packs; None if there is none.

    The engine writes it indented: it begins with a line ``{`` and ends with the last line ``}``. Text that may be
    another document, with a brace or bracket of its own, is no such line.
    """
    lines = text.splitlines(keepends=True)
    bounds = [number for number, line in enumerate(lines) if line.rstrip() in {"{", "}"}]
    if len(bounds) < 2 or lines[bounds[0]].rstrip() != "{":  # noqa: PLR2004 - the first and the last
        return None
    around = [*lines[: bounds[0]], *lines[bounds[-1] + 1 :]]
    if any(line.lstrip()[:1] in set("{}[]") for line in around if line.strip()):
        return None
    inner = "\n" * bounds[0] + "".join(lines[bounds[0] : bounds[-1] + 1])  # errors name the file's lines
    try:
        return decode_json(inner, where, ENGINE_DOCUMENT)
    except NotJsonError:
        return None


def _describe_invalid_json(text: str, error: NotJsonError, where: str) -> InputError:
    place = f"{where}:{error.line}"
    if error.reason == "Extra data":
        return InputError(
            "contains more than one JSON document", where=place, remedy="turn streaming JSON off"
        )
    if not text.lstrip().startswith("{"):
        start = shorten_repr(text.strip()[:60].splitlines()[0])
        return InputError(
            f"is not JSON: it starts with {start}", where=place, remedy="add --json to the command"
        )
    if error.position >= len(text.rstrip()) or error.reason.startswith("Unterminated"):
        return InputError(
            "ends in the middle of the JSON document",
            where=place,
            remedy="the output was truncated: run the command again",
        )
    return InputError(f"is not JSON: {make_printable(error.reason)}", where=place, remedy=REMEDY)

"""JSON from outside, decoded within limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpufleet.boundary.limit import NODE_REPORT, Limits
from gpufleet.boundary.shape import check_shape
from gpufleet.boundary.text import decode_text, printable, too_large
from gpufleet.errors import InputError


class _NotANumberError(ValueError):
    """``NaN`` or ``Infinity``: Python's reader takes them, JSON and PostgreSQL do not."""


def decode_json(content: str | bytes, where: str, limits: Limits = NODE_REPORT) -> Any:
    """Return the one JSON value in ``content``, which came from ``where`` (a file, a host, standard input)."""
    text = content if isinstance(content, str) else decode_text(content, where, limits)
    if len(text) > limits.bytes:
        raise too_large(len(text), where, limits)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InputError(f"is nested deeper than {limits.depth} levels", where=where) from None
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}"
        raise InputError(f"is not JSON: {printable(error.msg)}", where=place) from None
    except _NotANumberError as error:
        raise InputError(f"is not JSON: {error} is not a number that JSON can carry", where=where) from None
    except ValueError:  # more digits than Python converts
        raise InputError("is not JSON: a number is too long", where=where) from None
    check_shape(value, where, limits)
    return value


def decode_json_object(content: str | bytes, where: str, limits: Limits = NODE_REPORT) -> dict[str, Any]:
    """Return the one JSON object in ``content``."""
    value = decode_json(content, where, limits)
    if not isinstance(value, dict):
        raise InputError(f"is not a JSON object but {_kind(value)}", where=where)
    return value


def decode_json_lines(
    content: str | bytes, where: str, limits: Limits = NODE_REPORT
) -> Iterator[tuple[int, Any | InputError]]:
    """Yield each line's number with its value, or with the InputError that says why it has none.

    The limits hold for the whole content and for each line. Blank lines are left out. It is the caller who decides
    whether a bad line spoils the rest: a log that was cut off ends with one.
    """
    text = content if isinstance(content, str) else decode_text(content, where, limits)
    if len(text) > limits.bytes:
        raise too_large(len(text), where, limits)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, decode_json(line, f"{where}:{number}", limits)
        except InputError as error:
            yield number, error


def _refuse_constant(name: str) -> Any:
    raise _NotANumberError(name)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")

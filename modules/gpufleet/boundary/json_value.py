"""JSON from outside, decoded within limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpufleet.boundary.limit import NODE_REPORT, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, decode_text, make_printable
from gpufleet.boundary.value_check import check_value_limits
from gpufleet.errors import InputError

Json = dict[str, Any]
"""A JSON object, such as a document that a command prints or a service answers."""

_TEXTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class NotJsonError(InputError):
    """A text that is not JSON: ``reason`` as Python's reader words it, ``position`` in characters, ``line`` from 1."""

    def __init__(self, error: json.JSONDecodeError, where: str) -> None:
        super().__init__(f"is not JSON: {make_printable(error.msg)}", where=f"{where}:{error.lineno}")
        self.reason = error.msg
        self.position = error.pos
        self.line = error.lineno


class _NotANumberError(ValueError):
    """``NaN`` or ``Infinity``: Python's reader takes them, JSON and PostgreSQL do not."""


def decode_json(
    content: str | bytes,
    where: str,
    limits: DocumentLimits = NODE_REPORT,
    *,
    has_python_constants: bool = False,
) -> Any:
    """Return the one JSON value in ``content``, which came from ``where`` (a file, a host, standard input).

    ``has_python_constants``: ``Infinity`` and ``NaN``, which Python writes, are texts instead of errors.
    """
    return _decode(content, where, limits, limits.values, has_python_constants=has_python_constants)[0]


def decode_json_object(
    content: str | bytes,
    where: str,
    limits: DocumentLimits = NODE_REPORT,
    *,
    has_python_constants: bool = False,
) -> dict[str, Any]:
    """Return the one JSON object in ``content``."""
    value = decode_json(content, where, limits, has_python_constants=has_python_constants)
    if not isinstance(value, dict):
        raise InputError(f"is not a JSON object but {_kind(value)}", where=where)
    return value


def decode_json_lines(
    content: str | bytes, where: str, limits: DocumentLimits = NODE_REPORT
) -> Iterator[tuple[int, Any | InputError]]:
    """Yield each line's number with its value, or with the InputError that says why it has none.

    The limits hold for the whole content. Blank lines are left out. It is the caller who decides whether a bad line
    spoils the rest: a log that was cut off ends with one. After a line that is over the limits nothing more comes.
    """
    text = content if isinstance(content, str) else decode_text(content, where, limits)
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    left = limits.values
    for number, line in enumerate(_lines(text), start=1):
        left -= 1
        if left > 0 and (not line or line.isspace()):
            continue
        try:
            value, count = _decode(line, f"{where}:{number}", limits, left)
        except _TooManyError as error:
            yield number, error
            return
        except InputError as error:
            yield number, error
        else:
            left -= count
            yield number, value


class _TooManyError(InputError):
    """More values than the limits allow."""


def _decode(
    content: str | bytes,
    where: str,
    limits: DocumentLimits,
    values: int,
    *,
    has_python_constants: bool = False,
) -> tuple[Any, int]:
    """Return the value and how many values it is made of."""
    text = content if isinstance(content, str) else decode_text(content, where, limits)
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    if not _is_within(text, values):  # before anything is built: 128 MiB of "[]," are 3 GB of lists
        raise _TooManyError(f"contains more than {limits.values:,} values", where=where)
    try:
        value = json.loads(text, parse_constant=str if has_python_constants else _refuse_constant)
    except RecursionError:
        raise InputError(f"is nested deeper than {limits.depth} levels", where=where) from None
    except json.JSONDecodeError as error:
        raise NotJsonError(error, where) from None
    except _NotANumberError as error:
        raise InputError(
            f"is not JSON: {error} is not a number that JSON can represent", where=where
        ) from None
    except ValueError:  # more digits than Python converts
        raise InputError("is not JSON: a number is too long", where=where) from None
    return value, check_value_limits(value, where, limits)


def _is_within(text: str, values: int) -> bool:
    """Return False if a text contains more than so many values and keys; marks inside of texts do not count."""
    if _marks(text) < values:
        return True
    # A text takes two quotes. Without this bound the next line would make millions of pieces.
    if text.count('"') - text.count('\\"') > 4 * values:
        return False
    return _marks(_TEXTS.sub("", text)) < values


def _marks(text: str) -> int:
    return sum(map(text.count, ",:[{"))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, one at a time: a list of them may take ten times the text's memory."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _refuse_constant(name: str) -> Any:
    raise _NotANumberError(name)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")

"""The shape of decoded values: depth, number, text and numbers within bounds, then a typed model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from gpufleet.boundary.limit import NODE_REPORT, DocumentLimits
from gpufleet.boundary.text import make_printable, shorten_repr
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

UNKNOWN_KEY = "extra_forbidden"
OWN_MESSAGE = "Value error, "  # what pydantic puts before the text of a ValueError
PLAIN_MESSAGES = {
    UNKNOWN_KEY: "unknown key",
    "missing": "is missing",
}  # pydantic's name of the error: our words
_LARGEST_WHOLE = 1 << 63  # what SQLite, PostgreSQL and most JSON readers keep exactly


def check_value_limits(value: Any, where: str, limits: DocumentLimits = NODE_REPORT) -> int:
    """Return how many values decoded JSON or YAML holds; raise InputError unless it is within its limits.

    Refused are also what JSON cannot carry or a database cannot store: NaN, infinities, whole numbers over 64 bits,
    NUL characters and lone surrogates. The walk keeps a list of its own, so that depth costs no stack.
    """
    level: list[Any] = [value]
    depth = count = 0
    while level:
        count += len(level)
        if count > limits.values:
            raise InputError(f"contains more than {limits.values:,} values", where=where)
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item.keys())
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            else:
                check_scalar_limits(item, where, limits)
        depth += 1
        if deeper and depth > limits.depth:
            raise InputError(f"is nested deeper than {limits.depth} levels", where=where)
        level = deeper
    return count


def check_scalar_limits(item: Any, where: str, limits: DocumentLimits = NODE_REPORT) -> None:
    """Raise InputError where a text or number cannot be carried by JSON or stored by a database."""
    if isinstance(item, str):
        if len(item) > limits.characters:
            raise InputError(f"contains a text of {len(item):,} characters", where=where)
        if not is_storable_text(item):
            kind = "a NUL character" if "\x00" in item else "a lone surrogate"
            raise InputError(f"contains {kind}: {make_printable(item, 60)}", where=where)
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise InputError(f"{float(item)} is not a number that JSON can represent", where=where)
    elif isinstance(item, int) and not -_LARGEST_WHOLE <= item < _LARGEST_WHOLE:
        raise InputError("contains an integer over 64 bits", where=where)


def is_storable_text(text: str) -> bool:
    """Return True if a text is Unicode without NUL: what UTF-8 can carry and every database stores."""
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def validate_with_pydantic(model: type[Model], data: Any, where: str) -> Model:
    """Return decoded data as a pydantic model; the first thing wrong is one line with its key."""
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        problems.sort(key=lambda problem: problem["type"] != UNKNOWN_KEY)  # it often explains the others
        errors = tuple(
            InputError(
                PLAIN_MESSAGES.get(problem["type"])
                or f"{make_printable(problem['msg'].removeprefix(OWN_MESSAGE))}, got {shorten_repr(problem['input'])}",
                where=where,
                key=".".join(make_printable(step, 60) for step in problem["loc"]),
            )
            for problem in problems
        )
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        summary = InputError(errors[0].problem + more, where=where, key=errors[0].key)
        summary.errors = errors
        raise summary from None

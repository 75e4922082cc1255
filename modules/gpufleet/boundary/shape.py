"""The shape of decoded values: depth, number, text and numbers within bounds, then a typed model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from gpufleet.boundary.limit import NODE_REPORT, Limits
from gpufleet.boundary.text import printable
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

_LARGEST_WHOLE = 1 << 63  # what SQLite, PostgreSQL and most JSON readers keep exactly


def check_shape(value: Any, where: str, limits: Limits = NODE_REPORT) -> None:
    """Raise InputError unless decoded JSON or YAML is within its limits.

    Refused are also what JSON cannot carry or a database cannot store: NaN, infinities, whole numbers over 64 bits,
    NUL characters and lone surrogates. The walk keeps a list of its own, so that depth costs no stack.
    """
    level: list[Any] = [value]
    depth = count = 0
    while level:
        count += len(level)
        if count > limits.values:
            raise InputError(f"holds more than {limits.values:,} values", where=where)
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item.keys())
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            else:
                _check_scalar(item, kind, where, limits)
        depth += 1
        if deeper and depth > limits.depth:
            raise InputError(f"is nested deeper than {limits.depth} levels", where=where)
        level = deeper


def _check_scalar(item: Any, kind: type, where: str, limits: Limits) -> None:
    if kind is str:
        if len(item) > limits.characters:
            raise InputError(f"holds a text of {len(item):,} characters", where=where)
        if not item.isascii() and not _is_unicode(item):
            raise InputError(f"holds a lone surrogate: {printable(item, 60)}", where=where)
        if "\x00" in item:
            raise InputError(f"holds a NUL character: {printable(item, 60)}", where=where)
    elif kind is float:
        if not math.isfinite(item):
            raise InputError(f"{item} is not a number that JSON can carry", where=where)
    elif kind is int and not -_LARGEST_WHOLE <= item < _LARGEST_WHOLE:
        raise InputError("holds a whole number over 64 bits", where=where)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def validate_model(model: type[Model], data: Any, where: str) -> Model:
    """Return decoded data as a pydantic model; the first thing wrong is one line with its key."""
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        first = problems[0]
        key = ".".join(printable(step, 60) for step in first["loc"])
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{printable(first['msg'])}, got {printable(repr(first['input']), 60)}{more}"
        raise InputError(text, where=where, key=key) from None

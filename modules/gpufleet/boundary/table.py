"""Rows of a CSV data file as dataclasses: each field from the column of its name, converted by its annotation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

from gpufleet.boundary.csv_rows import (
    CsvRow,
    parse_boolean,
    parse_choice,
    parse_date,
    parse_integer,
    parse_number,
)
from gpufleet.boundary.package_data import read_packaged_rows
from gpufleet.errors import InputError

Row = TypeVar("Row")
Parse = Callable[[str], Any]


def read_table(model: type[Row], package: str, name: str) -> list[Row]:
    """Return the rows of a data file as ``build_from_row`` does; ``name`` is its path in the package."""
    return [build_from_row(model, row) for row in read_packaged_rows(package, name)]


def build_from_row(model: type[Row], row: CsvRow, **values: Any) -> Row:
    """Return a row as a dataclass; ``values`` are fields that do not come from a column of their name.

    Annotations: str, int, float, Decimal, date, bool (``yes``, ``no``), a Literal, and tuples and frozensets of them,
    whose members spaces separate. An empty cell is the field's default, else None where the annotation allows it.
    A cell that cannot be converted is an InputError with file, line and column.
    """
    texts, others, optional = _list_columns(model, *values)  # type: ignore[arg-type]  # a class has a hash
    for name in texts:
        values[name] = row[name]
    try:
        for name, parse in others:
            values[name] = parse(row[name])
        for name, parse, has_default in optional:
            if text := row.get(name, "") if has_default else row[name]:
                values[name] = parse(text)
            elif not has_default:
                values[name] = None
    except InputError:
        raise
    except ValueError as error:
        raise row.build_cell_error(name, error) from None
    return model(**values)


@cache
def _list_columns(
    model: type[Any], *given: str
) -> tuple[list[str], list[tuple[str, Parse]], list[tuple[str, Parse, bool]]]:
    """Return the fields that are their cell's text, others with their parsers, and those whose cell may be empty.

    The last have True if an empty cell is the field's default; otherwise it is None.
    """
    texts, others, optional = list[str](), list[tuple[str, Parse]](), list[tuple[str, Parse, bool]]()
    for field in fields(model):
        if field.name in given:
            continue
        parse, is_optional = _find_parser(str(field.type), model.__module__)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if has_default or is_optional:
            optional.append((field.name, parse, has_default))
        elif parse is str:
            texts.append(field.name)
        else:
            others.append((field.name, parse))
    return texts, others, optional


@cache
def _find_parser(annotation: str, module: str) -> tuple[Parse, bool]:
    """Return the parser of an annotation, and whether it allows None."""
    if annotation in _PLAIN_KINDS:
        return _PARSERS[_PLAIN_KINDS[annotation]], False
    kind = eval(annotation, vars(sys.modules[module]))  # noqa: S307 - our own classes; typing takes ten times as long
    kinds = get_args(kind)
    if NoneType in kinds:
        return _choose_parser(next(each for each in kinds if each is not NoneType)), True
    return _choose_parser(kind), False


def _choose_parser(kind: Any) -> Parse:
    if get_origin(kind) is Literal:
        return _Choices((each, each) for each in get_args(kind)).__getitem__
    if get_origin(kind) in (tuple, frozenset):
        collect, parse = get_origin(kind), _choose_parser(get_args(kind)[0])
        if parse is str:
            return lambda text: collect(text.split())
        return lambda text: collect(map(parse, text.split()))
    if kind not in _PARSERS and getattr(kind, "__name__", "") == "Decimal":
        from decimal import (  # its import takes longer than most tables, and few have one
            Decimal,
            InvalidOperation,
        )

        def parse_decimal(text: str) -> Decimal:
            try:
                number = Decimal(text)
            except InvalidOperation:
                number = Decimal("nan")
            if not number.is_finite():
                raise ValueError("is not a number")
            return number

        _PARSERS[Decimal] = parse_decimal
    return _PARSERS.get(kind, _refuse_kind)


class _Choices(dict[str, str]):
    """The values of a Literal; another text is a ValueError."""

    def __missing__(self, text: str) -> str:
        return str(parse_choice(text, tuple(self)))


def _refuse_kind(_text: str) -> Any:
    raise TypeError("no parser for a field of this kind")


_PARSERS: dict[Any, Parse] = {
    bool: parse_boolean, date: parse_date, float: parse_number, int: parse_integer, str: str,
}  # fmt: skip
_PLAIN_KINDS = {kind.__name__: kind for kind in _PARSERS}

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
    text_names, columns = _list_columns(model, *values)  # type: ignore[arg-type]  # a class has a hash
    for name in text_names:
        values[name] = row[name]
    try:
        for name, parse, when_empty in columns:
            text = row[name] if when_empty is not _DEFAULT else row.get(name, "")
            if text or when_empty is _PARSED:
                values[name] = parse(text)
            elif when_empty is None:
                values[name] = None
    except InputError:
        raise
    except ValueError as error:
        raise row.build_cell_error(name, error) from None
    return model(**values)


@cache
def _list_columns(
    model: type[Any], *given: str
) -> tuple[tuple[str, ...], tuple[tuple[str, Parse, object], ...]]:
    """Return the fields that are their cell's text; of each other one name, parser and what an empty cell is."""
    columns = []
    for field in fields(model):
        if field.name not in given:
            parse, is_optional = _find_parser(str(field.type), model.__module__)
            has_default = field.default is not MISSING or field.default_factory is not MISSING
            columns.append((field.name, parse, _DEFAULT if has_default else None if is_optional else _PARSED))
    text_names = tuple(name for name, *kind in columns if kind == [str, _PARSED])
    return text_names, tuple(column for column in columns if column[0] not in text_names)


@cache
def _find_parser(annotation: str, module: str) -> tuple[Parse, bool]:
    """Return the parser of an annotation, and whether it allows None."""
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
        return lambda text: collect(text.split() if parse is str else map(parse, text.split()))
    if kind not in _PARSERS:
        from decimal import Decimal  # few tables have one, and its import takes longer than many a table

        _PARSERS[Decimal] = _parse_decimal
    return _PARSERS.get(kind, _refuse_kind)


class _Choices(dict[str, str]):
    """The values of a Literal; another text is a ValueError."""

    def __missing__(self, text: str) -> str:
        return str(parse_choice(text, tuple(self)))


def _refuse_kind(_text: str) -> Any:
    raise TypeError("no parser for a field of this kind")


def _parse_decimal(text: str) -> Any:
    from decimal import Decimal

    parse_number(text)
    return Decimal(text)


_DEFAULT, _PARSED = (
    object(),
    object(),
)  # what an empty cell is: the field's default, or as its parser reads it
_PARSERS: dict[Any, Parse] = {
    bool: parse_boolean, date: parse_date, float: parse_number, int: parse_integer, str: str,
}  # fmt: skip

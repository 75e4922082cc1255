"""Rows as dataclasses: every kind of field, empty cells, and errors with file, line and column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

import pytest

from gpufleet.boundary import build_from_row, decode_csv, read_table
from gpufleet.errors import InputError

Size = Literal["small", "large"]


@dataclass(frozen=True)
class Part:
    name: str
    count: int
    share: float | None
    usd: Decimal
    sold: date
    known: bool
    size: Size
    words: tuple[str, ...]
    sizes: frozenset[int]
    note: str | None
    limit: float = 7.0
    kind: Size | None = None


CELLS = {
    "name": "a b", "count": "3", "share": "0.5", "usd": "0.10", "sold": "2026-11-21", "known": "yes", "size": "large",
    "words": "x y", "sizes": "1 2", "note": "n", "limit": "1.5", "kind": "small", "other": "ignored",
}  # fmt: skip


def _row(**cells):
    cells = CELLS | cells
    (row,) = decode_csv(",".join(cells) + "\n" + ",".join(cells.values()) + "\n", "f.csv")
    return row


def test_every_kind_of_field_is_converted():
    assert build_from_row(Part, _row()) == Part(
        "a b", 3, 0.5, Decimal("0.10"), date(2026, 11, 21), True, "large", ("x", "y"), frozenset((1, 2)), "n", 1.5,
        "small",
    )  # fmt: skip


def test_empty_cells_are_defaults_none_or_empty():
    row = _row(name="", share="", known="", words="", sizes="", note="", limit="", kind="")
    part = build_from_row(Part, row)
    assert (part.name, part.share, part.known, part.words, part.sizes) == ("", None, False, (), frozenset())
    assert (part.note, part.limit, part.kind) == (None, 7.0, None)


def test_values_replace_columns():
    row = _row(count="no number")
    assert build_from_row(Part, row, count=9).count == 9


def test_missing_column_is_the_default_or_an_error():
    row = _row()
    del row["limit"]
    assert build_from_row(Part, row).limit == 7.0
    del row["share"]
    with pytest.raises(InputError, match=r"f\.csv:2: share: the file has no such column"):
        build_from_row(Part, row)


@pytest.mark.parametrize(
    ("column", "text", "problem"),
    [
        ("count", "1.5", "is not an integer"),
        ("count", "", "is not an integer"),
        ("share", "nan", "is not a number"),
        ("usd", "1e", "is not a number"),
        ("usd", "Infinity", "is not a number"),
        ("sold", "2026-13-01", "is not a date"),
        ("known", "maybe", "is neither yes nor no"),
        ("size", "medium", "is not one of small, large"),
        ("sizes", "1 x", "is not an integer"),
        ("kind", "medium", "is not one of small, large"),
        ("limit", "much", "is not a number"),
    ],
)
def test_wrong_cell_is_one_line_with_place_and_column(column, text, problem):
    with pytest.raises(InputError) as caught:
        build_from_row(Part, _row(**{column: text}))
    assert str(caught.value) == f"f.csv:2: {column}: {text!r} {problem}"


def test_field_of_another_kind_is_a_fault_of_ours():
    @dataclass
    class Odd:
        name: complex

    with pytest.raises(TypeError):
        build_from_row(Odd, _row())


def test_data_file_is_read_as_a_table():
    @dataclass(frozen=True)
    class Slot:
        pcie_gen: int
        gb_s_x16: float

    slots = read_table(Slot, "gpufleet.sizing", "data/slots.csv")
    assert {slot.pcie_gen for slot in slots} >= {3, 4, 5}

"""Read what a cloud billed: FOCUS exports, Azure's cost details and Google's billing exports.

* FOCUS 1.0 to 1.3: AWS Data Exports, Azure Cost Management, and other providers;
* Azure "Cost and usage details", actual or amortized: columns of every agreement;
* Google Cloud's standard or detailed usage export, rows of the BigQuery table.

CSV and JSON lines may be gzip; Parquet needs the extra ``parquet``. Rows are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    CsvRow,
    is_json_file,
    make_printable,
    read_csv_file_header,
    read_csv_file_rows,
    read_file_mark,
    read_json_file_rows,
    read_parquet_columns,
    read_parquet_rows,
    render_parquet_cell,
)
from gpufleet.cost.inputs.bill_row import (
    AZURE_FIELDS,
    FOCUS_FIELDS,
    GOOGLE_FIELDS,
    BilledCharge,
    find_row_parser,
    parse_focus_row,
    parse_google_record,
)
from gpufleet.errors import InputError

PARQUET_MARK, ZIP_MARK = b"PAR1", b"PK\x03\x04"
KNOWN_FIELDS = {name.lower() for name in FOCUS_FIELDS} | set(AZURE_FIELDS)


def stream_billed_charges(path: Path) -> Iterator[BilledCharge]:
    """Yield the rows of an export; its form is recognised by its first bytes and its columns."""
    name, mark = make_printable(path), read_file_mark(path)
    if mark == ZIP_MARK:
        raise InputError("is a ZIP archive", where=name, remedy="unpack it and give the files")
    if mark == PARQUET_MARK:
        yield from _stream_parquet(path, name)
    elif is_json_file(path):
        for place, record in read_json_file_rows(path):
            is_focus = "BilledCost" in record
            yield (
                parse_focus_row(_make_row(record, place)) if is_focus else parse_google_record(record, place)
            )
    else:
        parse = find_row_parser(read_csv_file_header(path), f"{name}:1")
        for row in read_csv_file_rows(path):
            yield parse(row)


def _stream_parquet(path: Path, name: str) -> Iterator[BilledCharge]:
    columns = read_parquet_columns(path)
    if {"cost", "usage_start_time"} <= set(columns):
        for place, record in read_parquet_rows(path, [each for each in columns if each in GOOGLE_FIELDS]):
            yield parse_google_record(record, place)
        return
    parse = find_row_parser(columns, name)
    for place, record in read_parquet_rows(path, [each for each in columns if each.lower() in KNOWN_FIELDS]):
        yield parse(_make_row(record, place))


def _make_row(record: Mapping[str, Any], place: str) -> CsvRow:
    return CsvRow([(column, render_parquet_cell(value)) for column, value in record.items()], place)

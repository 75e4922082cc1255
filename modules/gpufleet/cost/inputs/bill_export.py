"""Read what a cloud billed: FOCUS exports, AWS's, Azure's and Google's own.

* AWS's Cost and Usage Report, CUR 2.0 and legacy;
* FOCUS 1.0 to 1.3: AWS Data Exports, Azure Cost Management, and other providers;
* Azure "Cost and usage details", actual or amortized: columns of every agreement;
* Google Cloud's standard or detailed usage export, rows of the BigQuery table.

CSV and JSON lines may be gzip; Parquet needs the extra ``parquet``. Rows are read one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    CsvRow,
    ParquetReader,
    is_json_file,
    make_printable,
    open_parquet_file,
    read_csv_file_header,
    read_csv_file_rows,
    read_file_mark,
    read_json_file_rows,
)
from gpufleet.cost.inputs.bill_overlap import RowSample, compute_row_identity
from gpufleet.cost.inputs.bill_row import (
    AZURE_FIELDS,
    FOCUS_FIELDS,
    GOOGLE_FIELDS,
    BilledCharge,
    RowParser,
    find_row_parser,
    parse_focus_row,
    parse_google_record,
)
from gpufleet.cost.inputs.bill_row_aws import FIELDS as AWS_FIELDS
from gpufleet.cost.inputs.bill_row_aws import AwsParser
from gpufleet.errors import InputError

PARQUET_MARK, ZIP_MARK = b"PAR1", b"PK\x03\x04"
KNOWN_FIELDS = {name.lower() for name in (*FOCUS_FIELDS, *AZURE_FIELDS, *GOOGLE_FIELDS, *AWS_FIELDS)}


def stream_bill_files(paths: Iterable[Path]) -> Iterator[BilledCharge]:
    """Yield the rows of exports; two files with the same rows, whatever their form, are an InputError.

    A row with a cost that an earlier file has too is marked: ``earlier_file``.
    """
    files, sample = list(paths), RowSample()
    first_by_rows: dict[int, Path] = {}
    for number, path in enumerate(files):
        row_hash, has_cost = 0, False
        for charge in stream_billed_charges(path):
            if len(files) == 1:
                yield charge
                continue
            identity = compute_row_identity(charge)
            row_hash = hash((row_hash, identity))
            has_cost = has_cost or bool(charge.cost)
            earlier = sample.add(identity, number) if charge.cost else None
            yield charge if earlier is None else replace(charge, earlier_file=make_printable(files[earlier]))
        if has_cost and (first := first_by_rows.setdefault(row_hash, path)) is not path:
            problem = f"has the same rows as {make_printable(first)}"
            raise InputError(problem, where=make_printable(path), remedy="give each export once")


def stream_billed_charges(path: Path) -> Iterator[BilledCharge]:
    """Yield the rows of an export; its form is recognised by its first bytes and its columns."""
    name, mark = make_printable(path), read_file_mark(path)
    if mark == ZIP_MARK:
        raise InputError("is a ZIP archive", where=name, remedy="unpack it and give the files")
    if mark == PARQUET_MARK:
        with open_parquet_file(path, KNOWN_FIELDS) as file:
            yield from _stream_parquet(file, name)
    elif is_json_file(path):
        for place, record in read_json_file_rows(path):
            is_focus = "BilledCost" in record
            yield (
                parse_focus_row(_make_row(record, place)) if is_focus else parse_google_record(record, place)
            )
    else:
        parse = _find_parser(read_csv_file_header(path), f"{name}:1")
        for row in read_csv_file_rows(path):
            yield parse(row)


def _stream_parquet(file: ParquetReader, name: str) -> Iterator[BilledCharge]:
    if {"cost", "usage_start_time"} <= set(file.columns):
        for place, record in file.read_rows():
            yield parse_google_record(record, place)
        return
    parse = _find_parser(file.columns, name)
    for place, record in file.read_rows():
        yield parse(_make_row(record, place))


def _find_parser(columns: list[str], where: str) -> RowParser:
    return AwsParser(columns) if AwsParser.is_report(columns) else find_row_parser(columns, where)


def _make_row(record: Mapping[str, Any], place: str) -> CsvRow:
    return CsvRow([(column, _render_cell(value)) for column, value in record.items()], place)


def _render_cell(value: Any) -> str:
    """Return a value as a CSV file has it: nothing as an empty cell, an object or a list as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list | dict) else str(value)

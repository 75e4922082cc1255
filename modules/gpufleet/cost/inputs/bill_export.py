"""Read what a cloud billed: FOCUS exports, Azure's cost details and Google's billing exports.

* FOCUS 1.0 to 1.3, CSV: AWS Data Exports, Azure Cost Management, and other providers;
* Azure "Cost and usage details", actual or amortized, CSV: columns of every agreement;
* Google Cloud's standard or detailed usage export, JSON lines of the BigQuery table.

Each may be gzip. Rows are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpufleet.boundary import (
    is_json_file,
    make_printable,
    read_csv_file_header,
    read_csv_file_rows,
    read_json_file_rows,
)
from gpufleet.cost.inputs.bill_row import BilledCharge, find_row_parser, parse_google_record


def stream_billed_charges(path: Path) -> Iterator[BilledCharge]:
    """Yield the rows of an export; its form is recognised by its columns."""
    if is_json_file(path):
        for place, record in read_json_file_rows(path):
            yield parse_google_record(record, place)
        return
    parse = find_row_parser(read_csv_file_header(path), f"{make_printable(path)}:1")
    for row in read_csv_file_rows(path):
        yield parse(row)

"""The one gate for data from outside: nodes, files, programs, network services and pull requests.

Input: bytes or text from outside. Output: plain values of bounded size and depth, with numbers that JSON supports and
text that a database can store. Anything else is an InputError with its place.
Output: every text for a terminal, a log or a report passes through ``make_printable()``.
No other room calls ``json.loads``, a YAML, CSV or XML reader; ``tests/boundary/test_gate.py`` verifies that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.boundary.csv_rows import CsvRow, check_cell_safety, decode_csv
from gpufleet.boundary.file_reader import describe_read_error, read_bytes, read_text, read_text_stream
from gpufleet.boundary.json_value import (
    Json,
    NotJsonError,
    decode_json,
    decode_json_lines,
    decode_json_object,
)
from gpufleet.boundary.limit import (
    ENGINE_DOCUMENT,
    LARGE_DOCUMENT,
    NODE_REPORT,
    OPERATOR_FILE,
    OWN_STATE,
    RUNNER_EVENT,
    DocumentLimits,
)
from gpufleet.boundary.package_data import (
    read_packaged_bytes,
    read_packaged_columns,
    read_packaged_json,
    read_packaged_rows,
    read_packaged_text,
    read_packaged_yaml,
)
from gpufleet.boundary.printable_value import make_values_printable
from gpufleet.boundary.table import build_from_row, read_table
from gpufleet.boundary.text import decode_text, make_block_printable, make_printable, shorten_repr
from gpufleet.boundary.value_check import check_value_limits, validate_with_pydantic
from gpufleet.lazy_names import make_module_getattr

if TYPE_CHECKING:
    from gpufleet.boundary.csv_stream import stream_csv_rows
    from gpufleet.boundary.exposition import Sample, decode_exposition
    from gpufleet.boundary.file_writer import (
        convert_full_disk,
        convert_write_errors,
        refuse_symlinks,
        sync_to_disk,
        write_bytes,
        write_text,
    )
    from gpufleet.boundary.identifier import check_identifier, is_identifier
    from gpufleet.boundary.ini_text import decode_ini
    from gpufleet.boundary.parquet_file import ParquetReader, open_parquet_file
    from gpufleet.boundary.plain_yaml import decode_plain_yaml
    from gpufleet.boundary.row_file import (
        is_json_file,
        read_csv_file_header,
        read_csv_file_rows,
        read_file_mark,
        read_json_file_rows,
    )
    from gpufleet.boundary.xml_tree import decode_xml
    from gpufleet.boundary.yaml_subset import decode_yaml_subset
    from gpufleet.boundary.yaml_value import (
        decode_yaml,
        decode_yaml_with_comments,
        decode_yaml_with_line_numbers,
        format_key_location,
    )

__all__ = [
    "ENGINE_DOCUMENT",
    "LARGE_DOCUMENT",
    "NODE_REPORT",
    "OPERATOR_FILE",
    "OWN_STATE",
    "RUNNER_EVENT",
    "CsvRow",
    "DocumentLimits",
    "Json",
    "NotJsonError",
    "ParquetReader",
    "Sample",
    "build_from_row",
    "check_cell_safety",
    "check_identifier",
    "check_value_limits",
    "convert_full_disk",
    "convert_write_errors",
    "decode_csv",
    "decode_exposition",
    "decode_ini",
    "decode_json",
    "decode_json_lines",
    "decode_json_object",
    "decode_plain_yaml",
    "decode_text",
    "decode_xml",
    "decode_yaml",
    "decode_yaml_subset",
    "decode_yaml_with_comments",
    "decode_yaml_with_line_numbers",
    "describe_read_error",
    "format_key_location",
    "is_identifier",
    "is_json_file",
    "make_block_printable",
    "make_printable",
    "make_values_printable",
    "open_parquet_file",
    "read_bytes",
    "read_csv_file_header",
    "read_csv_file_rows",
    "read_file_mark",
    "read_json_file_rows",
    "read_packaged_bytes",
    "read_packaged_columns",
    "read_packaged_json",
    "read_packaged_rows",
    "read_packaged_text",
    "read_packaged_yaml",
    "read_table",
    "read_text",
    "read_text_stream",
    "refuse_symlinks",
    "shorten_repr",
    "stream_csv_rows",
    "sync_to_disk",
    "validate_with_pydantic",
    "write_bytes",
    "write_text",
]


# Imported with the first use: they take longer than a quick answer, which needs none of them.
_LATER = {
    "csv_stream": ("stream_csv_rows",),
    "exposition": ("Sample", "decode_exposition"),
    "file_writer": (
        "convert_full_disk",
        "convert_write_errors",
        "refuse_symlinks",
        "sync_to_disk",
        "write_bytes",
        "write_text",
    ),
    "identifier": ("check_identifier", "is_identifier"),
    "ini_text": ("decode_ini",),
    "parquet_file": ("ParquetReader", "open_parquet_file"),
    "plain_yaml": ("decode_plain_yaml",),
    "row_file": (
        "is_json_file",
        "read_csv_file_header",
        "read_csv_file_rows",
        "read_file_mark",
        "read_json_file_rows",
    ),
    "xml_tree": ("decode_xml",),
    "yaml_subset": ("decode_yaml_subset",),
    "yaml_value": (
        "decode_yaml",
        "decode_yaml_with_comments",
        "decode_yaml_with_line_numbers",
        "format_key_location",
    ),
}

__getattr__ = make_module_getattr(__name__, _LATER)

"""Parquet from outside, read row by row within limits. Its library, pyarrow, is optional: the extra ``parquet``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gpufleet.boundary.limit import KIB, MIB
from gpufleet.boundary.row_file import open_regular_file
from gpufleet.boundary.text import make_printable
from gpufleet.errors import EnvironmentFault, InputError

GIB = KIB * MIB
BATCH_ROWS = 1024


@dataclass(frozen=True)
class ParquetLimits:
    """Bounds of a file: rows, columns, uncompressed bytes of a row group, bytes of a batch."""

    rows: int = 20_000_000
    columns: int = 1_000
    group_bytes: int = 4 * GIB
    batch_bytes: int = 64 * MIB


COST_EXPORT = ParquetLimits()


def read_parquet_columns(path: Path, limits: ParquetLimits = COST_EXPORT) -> list[str]:
    """Return the names of a Parquet file's columns; EnvironmentFault if pyarrow is not installed."""
    with _open_parquet(path, limits) as file:
        return [str(name) for name in file.schema_arrow.names]


def read_parquet_rows(
    path: Path, columns: Sequence[str], limits: ParquetLimits = COST_EXPORT
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the chosen columns of each row."""
    name = make_printable(path)
    with _open_parquet(path, limits) as file:
        _check_groups(file, name, limits)
        number = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
            if batch.nbytes > limits.batch_bytes:
                raise InputError(
                    f"has rows of more than {limits.batch_bytes // BATCH_ROWS:,} bytes", where=name
                )
            names = batch.schema.names
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                yield f"{name}: row {number}", dict(zip(names, cells, strict=True))


@contextmanager
def _open_parquet(path: Path, limits: ParquetLimits) -> Iterator[Any]:
    """Open a file; what is not Parquet, or is too large, is an InputError, also while it is read."""
    name = make_printable(path)
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        hint = "pip install 'gpufleet[parquet]'"
        raise EnvironmentFault(f"{name}: pyarrow, which reads Parquet, is not installed", hint=hint) from None
    try:
        with open_regular_file(path, name) as source:
            file = parquet.ParquetFile(
                source, buffer_size=MIB, pre_buffer=False, coerce_int96_timestamp_unit="us"
            )
            _check_size(file.metadata, name, limits)
            yield file
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"is not Parquet that can be read: {make_printable(error, 120)}", where=name
        ) from None


def _check_size(metadata: Any, name: str, limits: ParquetLimits) -> None:
    if metadata.num_rows > limits.rows or metadata.num_columns > limits.columns:
        problem = f"has {metadata.num_rows:,} rows of {metadata.num_columns:,} columns"
        remedy = f"the limits are {limits.rows:,} and {limits.columns:,}"
        raise InputError(problem, where=name, remedy=remedy)


def _check_groups(file: Any, name: str, limits: ParquetLimits) -> None:
    """Refuse a row group that would fill the memory.

    The sizes of single columns are not read: a damaged one ends the process inside of pyarrow.
    """
    for number in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(number).total_byte_size
        if size > limits.group_bytes:
            raise InputError(
                f"has a row group of {size:,} bytes", where=name, remedy="write smaller row groups"
            )


def render_parquet_cell(value: Any) -> str:
    """Return a value as a CSV file has it: nothing as an empty cell, a map or a list as JSON."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list) and not all(isinstance(each, tuple) for each in value):
        return json.dumps(value, default=str)
    if isinstance(value, list | dict):  # a map is a list of pairs
        pairs = value.items() if isinstance(value, dict) else value
        return json.dumps({render_parquet_cell(key): each for key, each in pairs}, default=str)
    return value.isoformat() if isinstance(value, date | datetime) else str(value)

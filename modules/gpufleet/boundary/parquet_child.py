"""The child of ``parquet_file``: decode one Parquet file with pyarrow, and write its rows as JSON lines.

Run as a script: the file is standard input, ``sys.argv[1]`` has the limits. A damaged file can end this process or
fill its memory, which the parent reports. It imports nothing of gpufleet, so that it starts quickly.

The lines: ``{"columns": all, "names": chosen}``, then ``{"cells": [a list for each name]}`` for some rows, and
``{"end": true}``. A number or a time is a text, as a CSV file has it. An error is the last line: ``refused`` with
``remedy``, ``unreadable``, or ``missing`` if pyarrow cannot be imported.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time
from typing import Any, BinaryIO

BATCH_ROWS = 1024
READ_BYTES = 1 << 20  # of the file at once
LONGEST_REASON = 120  # characters
PR_SET_PDEATHSIG = 1
Limits = dict[str, Any]


class RefusedError(Exception):
    """A file that is larger than the limits."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


def main() -> None:
    """Write the rows of standard input, or one error."""
    limits: Limits = json.loads(sys.argv[1])
    limit_process(limits)
    stop_with_parent(limits["parent"])
    with os.fdopen(0, "rb") as source, os.fdopen(1, "wb") as output:
        output.write(encode_result(source, output, limits))


def limit_process(limits: Limits) -> None:
    """Bound memory and processor time; write no file and no core."""
    bounds = {
        resource.RLIMIT_AS: (limits["memory_bytes"], limits["memory_bytes"]),
        resource.RLIMIT_CPU: (limits["cpu_s"], limits["cpu_s"] + 10),  # SIGXCPU, then SIGKILL
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
    }
    for kind, (soft, most) in bounds.items():
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # macOS has no limit of the address space
            resource.setrlimit(kind, (min(soft, bound), bound))


def stop_with_parent(parent: int) -> None:
    """End when the parent does: by the kernel on Linux, elsewhere at the next line."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)


def encode_result(source: BinaryIO, output: BinaryIO, limits: Limits) -> bytes:
    """Write the rows; return the last line: the end, or the error."""
    try:
        write_rows(source, output, limits)
    except RefusedError as error:
        return encode_line({"refused": error.problem, "remedy": error.remedy})
    except ImportError as error:
        is_installed = not isinstance(error, ModuleNotFoundError)
        return encode_line({"missing": describe(error) if is_installed else ""})
    except MemoryError:
        mebibytes = limits["memory_bytes"] >> 20
        return encode_line({"unreadable": f"it needs more than {mebibytes:,} MiB of memory"})
    except Exception as error:  # noqa: BLE001 - pyarrow raises what a damaged file makes it raise
        return encode_line({"unreadable": describe(error)})
    return encode_line({"end": True})


def describe(error: Exception) -> str:
    """Return the first line of an error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:LONGEST_REASON].encode("ascii", "backslashreplace").decode()


def write_rows(source: BinaryIO, output: BinaryIO, limits: Limits) -> None:
    """Write the columns, then the rows of the chosen columns, in lines of bounded length."""
    from pyarrow import parquet

    file = parquet.ParquetFile(
        source, buffer_size=READ_BYTES, pre_buffer=False, coerce_int96_timestamp_unit="us"
    )
    columns = [str(name) for name in file.schema_arrow.names]
    check_size(file.metadata, limits)
    names = [name for name in columns if name.lower() in limits["fields"]]
    header = encode_line({"columns": columns, "names": names})
    if len(header) > limits["line_bytes"]:
        raise RefusedError(f"has names of columns of {len(header):,} bytes")
    output.write(header)
    output.flush()
    for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
        if batch.nbytes > limits["batch_bytes"]:
            raise RefusedError(f"has rows of more than {limits['batch_bytes'] // BATCH_ROWS:,} bytes")
        write_batch(batch, output, limits["line_bytes"])


def check_size(metadata: Any, limits: Limits) -> None:
    """Refuse a file or a row group over the limits."""
    if metadata.num_rows > limits["rows"] or metadata.num_columns > limits["columns"]:
        problem = f"has {metadata.num_rows:,} rows of {metadata.num_columns:,} columns"
        raise RefusedError(problem, f"the limits are {limits['rows']:,} and {limits['columns']:,}")
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if size > limits["group_bytes"]:
            raise RefusedError(f"has a row group of {size:,} bytes", "write smaller row groups")


def write_batch(batch: Any, output: BinaryIO, line_bytes: int) -> None:
    """Write a batch as one line, or as several if it is longer than a line may be."""
    line = encode_line({"cells": [list_cells(column) for column in batch.columns]})
    if len(line) <= line_bytes:
        output.write(line)
    elif batch.num_rows == 1:
        raise RefusedError(f"has a row of more than {line_bytes:,} bytes")
    else:
        middle = batch.num_rows // 2
        write_batch(batch.slice(0, middle), output, line_bytes)
        write_batch(batch.slice(middle), output, line_bytes)


def list_cells(column: Any) -> list[Any]:
    """Return a column's cells: texts, nothing, or lists and objects of those."""
    from pyarrow import types

    cells: list[Any] = column.to_pylist()
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return cells
    make: Callable[[Any], Any] = make_plain
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        make = str
    elif types.is_timestamp(kind):
        make = datetime.isoformat
    elif types.is_map(kind):  # one text: the tags of a row
        make = render_map
    return [None if cell is None else make(cell) for cell in cells]


def render_map(pairs: list[tuple[Any, Any]]) -> str:
    """Return a map as the text of a JSON object."""
    return json.dumps({str(make_plain(key)): make_plain(value) for key, value in pairs})


def make_plain(value: Any) -> Any:
    """Return a value as JSON has it; a map inside of another value is a list of pairs."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: make_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [make_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date | time) else str(value)


def encode_line(message: dict[str, Any]) -> bytes:
    """Return a message as a line; pyarrow's texts are UTF-8."""
    return f"{json.dumps(message, ensure_ascii=False)}\n".encode()


if __name__ == "__main__":
    main()

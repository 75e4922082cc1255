"""Parquet from outside, read row by row within limits. Its library, pyarrow, is optional: the extra ``parquet``.

A damaged file can make pyarrow end its process or allocate without end, so it decodes in a child process,
``parquet_child.py``. The child writes rows as they are read: a pipe holds 64 KiB, then the child waits.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import IO, Any

from gpufleet.boundary.file_reader import describe_read_error
from gpufleet.boundary.json_value import decode_json_object
from gpufleet.boundary.limit import KIB, MIB, DocumentLimits
from gpufleet.boundary.row_file import open_regular_file
from gpufleet.boundary.text import make_printable
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.extra import format_install_command

GIB = KIB * MIB
STOP_S = 60  # of a child that has closed its pipe
# The child needs no secret: only what Python and a library's loader read.
INHERITED = (
    "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONTZPATH",
)  # fmt: skip
# One thread, and memory that counts when it is used: other allocators reserve address space.
CHILD_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class ParquetLimits:
    """Bounds of a file: rows, columns, uncompressed bytes of a row group, bytes of a batch of 1,024 rows.

    ``line_bytes`` bounds what the child sends at once, and so one row. ``memory_bytes`` is the child's address space.
    """

    rows: int = 20_000_000
    columns: int = 1_000
    group_bytes: int = 4 * GIB
    batch_bytes: int = 64 * MIB
    line_bytes: int = 4 * MIB
    memory_bytes: int = 2 * GIB
    cpu_s: int = 3600


COST_EXPORT = ParquetLimits()


@contextmanager
def open_parquet_file(
    path: Path, fields: Collection[str], limits: ParquetLimits = COST_EXPORT
) -> Iterator[ParquetReader]:
    """Open a file to read the columns whose names, in lower case, are in ``fields``.

    What is not Parquet, or is too large, is an InputError, also while it is read. EnvironmentFault if pyarrow is not
    installed.
    """
    name = make_printable(path)
    try:
        source = open_regular_file(path, name)
    except OSError as error:
        raise InputError(f"cannot be read: {describe_read_error(error)}", where=name) from None
    with source:
        child = _start_child(source, fields, limits)
    with child:
        try:
            yield ParquetReader(child, name, limits)
        finally:
            child.kill()


def _start_child(
    source: IO[bytes], fields: Collection[str], limits: ParquetLimits
) -> subprocess.Popen[bytes]:
    order = {**asdict(limits), "fields": sorted(fields), "parent": os.getpid()}
    variables = {key: os.environ[key] for key in INHERITED if key in os.environ}
    try:
        with as_file(files("gpufleet.boundary") / "parquet_child.py") as script:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    str(script),
                    json.dumps(order),
                ],  # -P: no module of the script's folder
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=variables | CHILD_SETTINGS,
                start_new_session=True,  # so that an interrupt reaches us alone, and we stop it
            )
    except OSError as error:
        fault = f"the process that reads Parquet cannot be started: {describe_read_error(error)}"
        raise EnvironmentFault(fault) from None


class ParquetReader:
    """The rows that a child sends. ``columns`` are all names of the file."""

    def __init__(self, child: subprocess.Popen[bytes], name: str, limits: ParquetLimits) -> None:
        self._child, self._name, self._limits = child, name, limits
        self._message_limits = DocumentLimits(limits.line_bytes, depth=32, values=MIB, characters=256 * KIB)
        header = self._read_message()
        self.columns = self._require_names(header, "columns")
        self._names = self._require_names(header, "names")

    def read_rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place and the chosen columns of each row: texts, None, or lists and objects of those."""
        number = 0
        while self._names and (message := self._read_message()).get("end") is not True:
            for row in zip(*self._require_cells(message, self._limits.rows - number), strict=True):
                number += 1
                yield f"{self._name}: row {number}", dict(zip(self._names, row, strict=True))

    def _require_cells(self, message: dict[str, Any], max_rows: int) -> list[list[Any]]:
        """Return a list of cells for each name, all of one length."""
        columns = message.get("cells")
        if not isinstance(columns, list) or not all(isinstance(column, list) for column in columns):
            raise self._build_error("pyarrow sent an unexpected line")
        sizes = {len(column) for column in columns}
        if len(columns) != len(self._names) or len(sizes) != 1 or max(sizes) > max_rows:
            raise self._build_error("pyarrow sent an unexpected line")
        return columns

    def _require_names(self, header: dict[str, Any], key: str) -> list[str]:
        names = header.get(key)
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise self._build_error("pyarrow sent an unexpected line")
        return names

    def _read_message(self) -> dict[str, Any]:
        """Return the next line of the child; its errors, and an end without one, are raised."""
        line = self._child.stdout.readline(self._limits.line_bytes + 1) if self._child.stdout else b""
        if len(line) > self._limits.line_bytes:
            raise self._build_error("pyarrow sent an unexpected line")
        if not line.endswith(b"\n"):
            raise self._build_error(self._describe_end())
        message = decode_json_object(line, self._name, self._message_limits)
        if "unreadable" in message:
            raise self._build_error(make_printable(message["unreadable"], 120))
        if "refused" in message:
            problem, remedy = (make_printable(message.get(key, "")) for key in ("refused", "remedy"))
            raise InputError(problem, where=self._name, remedy=remedy)
        if "missing" in message:
            reason = message["missing"]
            problem = f"cannot be loaded: {make_printable(reason, 120)}" if reason else "is not installed"
            fault = (
                f"{self._name}: pyarrow, which reads Parquet, {problem}: {format_install_command('parquet')}"
            )
            raise EnvironmentFault(fault)
        return message

    def _describe_end(self) -> str:
        """Return how the child ended, which has closed its pipe."""
        try:
            status = self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return "pyarrow does not end"
        if status == -signal.SIGXCPU:
            return f"pyarrow took more than {self._limits.cpu_s:,} s of processor time"
        if status < 0:
            return f"pyarrow ended with {_name_signal(-status)}"
        return f"pyarrow ended with status {status}"

    def _build_error(self, reason: str) -> InputError:
        problem = f"is not a readable Parquet file: {reason}"
        return InputError(problem, where=self._name, remedy="export it again, or give CSV")


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"

"""Test the process that reads Parquet: damage, an abort, too much memory or time, interrupts, and what it may see.

What no file makes pyarrow do for certain, a fake pyarrow in the child's PYTHONPATH does.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from gpufleet import boundary
from gpufleet.boundary import parquet_file
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.process_stat import is_process_alive

HANG_GUARD_S = 180
COLUMNS = ("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd")
CELLS = ("1.5", "USD", "Usage", "2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z")
MAGIC = b"PAR1"


def write(path, row_count=200, **columns):
    cells = dict(zip(COLUMNS, CELLS, strict=True)) | columns
    table = pa.table({name: [cell] * row_count for name, cell in cells.items()})
    parquet.write_table(table, path, row_group_size=100)
    return path


def read(path, **limits):
    with boundary.open_parquet_file(
        path, [name.lower() for name in COLUMNS], parquet_file.ParquetLimits(**limits)
    ) as file:
        return list(file.read_rows())


@pytest.fixture
def fake_pyarrow(tmp_path, monkeypatch):
    """Return a function that replaces pyarrow in the child, by what its import and its reader do."""

    def replace(on_read="pass", on_import="pass"):
        folder = tmp_path / "fake/pyarrow"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"{on_import}\n")
        (folder / "parquet.py").write_text(
            f"import os, signal, sys\ndef ParquetFile(*_, **__):\n    {on_read}\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(folder.parent))
        path = tmp_path / "a.parquet"
        path.write_bytes(MAGIC * 10)
        return path

    return replace


def test_truncated_file_is_one_line(tmp_path):
    path = write(tmp_path / "a.parquet")
    content = path.read_bytes()
    for size in (5, 12, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError) as excinfo:
            list(stream_billed_charges(path))
        assert str(excinfo.value).startswith(f"{path}: is not a readable Parquet file: ")
        assert str(excinfo.value).endswith("; export it again, or give CSV")


@pytest.mark.parametrize("size", [0, 9, 0x7FFFFFFF, 0xFFFFFFFF])
def test_damaged_size_of_the_footer_is_one_line(tmp_path, size):
    path = write(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:-8] + struct.pack("<I", size) + MAGIC)
    with pytest.raises(InputError, match="is not a readable Parquet file: ") as excinfo:
        list(stream_billed_charges(path))
    assert "\n" not in str(excinfo.value)


@pytest.mark.parametrize("number", range(10))
def test_damaged_footer_or_page_gives_the_rows_or_one_line(tmp_path, number):
    """Sizes, offsets and encodings are in the footer and before each page: each byte there may be another."""
    path, random = write(tmp_path / "a.parquet"), Random(number)
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    first = footer if number % 2 else 4
    for _ in range(2):
        content[random.randrange(first, min(first + 800, len(content) - 8))] = random.choice((0xFF, 0x7F, 0))
    path.write_bytes(content)
    problem, row_count = "", 0
    try:
        row_count = len(list(stream_billed_charges(path)))
    except InputError as error:
        problem = str(error)
    assert row_count <= 200
    assert not problem or (problem.startswith(str(path)) and "\n" not in problem)


def test_abort_of_the_library_is_one_line(fake_pyarrow):
    path = fake_pyarrow("os.abort()")
    with pytest.raises(InputError) as excinfo:
        list(stream_billed_charges(path))
    problem = "is not a readable Parquet file: pyarrow ended with SIGABRT"
    assert str(excinfo.value) == f"{path}: {problem}; export it again, or give CSV"


def test_command_reports_an_abort_with_exit_code_2(fake_pyarrow, gpufleet, project):
    path = fake_pyarrow("os.abort()")
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    result = gpufleet("cost", "actual", "-s", "dev", path, cwd=project, env=variables)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"error: {path}: is not a readable Parquet file: pyarrow ended with SIGABRT" in result.stderr


@pytest.mark.parametrize(
    ("on_read", "reason"),
    [
        ("sys.exit(7)", "pyarrow ended with status 7"),
        ("os._exit(0)", "pyarrow ended with status 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "pyarrow ended with SIGKILL"),
        ("os.write(1, b'{\"columns\"'); os.abort()", "pyarrow ended with SIGABRT"),
        ("raise KeyError('a\\nb\\x1b\\ud800')", r"'a\nb\x1b\ud800'"),
        ("raise OSError('a\\nb')", "a"),
    ],
)
def test_any_end_of_the_child_is_one_line(fake_pyarrow, on_read, reason):
    path = fake_pyarrow(on_read)
    with pytest.raises(InputError) as excinfo:
        list(stream_billed_charges(path))
    assert (
        str(excinfo.value)
        == f"{path}: is not a readable Parquet file: {reason}; export it again, or give CSV"
    )


def test_file_that_takes_too_much_memory_is_one_line(tmp_path):
    """One text of 1 MiB is in the file once; its 1,024 rows are a batch of 1 GiB."""
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1024, pa.int32()), pa.array(["x" * (1 << 20)]))
    parquet.write_table(pa.table({"BillingCurrency": texts}), path, store_schema=False)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError) as excinfo:
        read(path, memory_bytes=512 << 20, batch_bytes=4 << 30)
    reason = "it needs more than 512 MiB of memory"
    assert (
        str(excinfo.value)
        == f"{path}: is not a readable Parquet file: {reason}; export it again, or give CSV"
    )
    assert len(read(write(path), memory_bytes=512 << 20)) == 200


def test_file_that_takes_too_long_is_one_line(fake_pyarrow):
    path = fake_pyarrow("\n    while True: pass")
    with pytest.raises(InputError, match="pyarrow took more than 1 s of processor time"):
        read(path, cpu_s=1)


def test_missing_library_names_the_extra(fake_pyarrow):
    path = fake_pyarrow(on_import="raise ModuleNotFoundError('pyarrow')")
    with pytest.raises(EnvironmentFault) as excinfo:
        list(stream_billed_charges(path))
    command = "pip install 'gpufleet[parquet]'"
    assert str(excinfo.value) == f"{path}: pyarrow, which reads Parquet, is not installed: {command}"


def test_library_that_cannot_be_loaded_is_not_the_file_s_fault(fake_pyarrow):
    path = fake_pyarrow(on_import="raise ImportError('libarrow.so: not found')")
    with pytest.raises(
        EnvironmentFault, match=r"pyarrow, which reads Parquet, cannot be loaded: libarrow\.so: not found"
    ):
        list(stream_billed_charges(path))


def test_child_has_no_credentials_and_no_module_of_the_current_folder(tmp_path, fake_pyarrow, monkeypatch):
    (tmp_path / "resource.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    path = fake_pyarrow(
        "raise ValueError(sorted(key for key in os.environ if 'AWS' in key or 'PYTHON' in key))"
    )
    with pytest.raises(InputError, match=r"\['PYTHONPATH'\]"):
        list(stream_billed_charges(path))


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_child_is_stopped_when_gpufleet_is_killed(tmp_path, fake_pyarrow, signum):
    """The child writes its id and waits without end; then gpufleet gets the signal."""
    read_end, write_end = os.pipe()
    path = fake_pyarrow("os.write(1, b'%d\\n' % os.getpid()); signal.pause()")
    code = (
        "import os, sys; from pathlib import Path; from gpufleet.boundary import parquet_file\n"
        "def report(self): os.write(int(sys.argv[2]), self._child.stdout.readline()); self._child.stdout.readline()\n"
        "parquet_file.ParquetReader._read_message = report\n"
        "with parquet_file.open_parquet_file(Path(sys.argv[1]), []): pass\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(write_end)],
        pass_fds=[write_end],
        stderr=subprocess.DEVNULL,
    )
    os.close(write_end)
    child = int(os.read(read_end, 20))
    os.close(read_end)
    assert is_process_alive(child)
    process.send_signal(signum)
    assert process.wait(HANG_GUARD_S) != 0
    deadline = time.monotonic() + HANG_GUARD_S
    while is_process_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_child_is_stopped_when_the_reader_stops(tmp_path):
    before = list_children()  # of other tests, in a run of many
    rows = stream_billed_charges(write(tmp_path / "a.parquet", 50_000))
    next(rows)
    (child,) = list_children() - before
    rows.close()
    assert not is_process_alive(child)


def list_children():
    return {int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.parametrize(
    "lines",
    [
        [{"columns": COLUMNS}],
        [{"columns": [1], "names": []}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": 5}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": [5]}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": [[1], [2]]}],
        [{"columns": ["a", "b"], "names": ["a", "b"]}, {"cells": [[1], []]}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": [[1, 2, 3, 4]]}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": [["x" * 2000]]}],
        [{"columns": ["a"], "names": ["a"]}, {"cells": [["x"]]}],
        [[]],
    ],
)
def test_unexpected_lines_of_the_child_are_one_line(lines):
    """A file may have taken over the child."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    child = SimpleNamespace(stdout=BytesIO(content), wait=lambda _: 0)
    with pytest.raises(InputError) as excinfo:
        list(
            parquet_file.ParquetReader(
                child, "a.parquet", parquet_file.ParquetLimits(rows=3, line_bytes=1000)
            ).read_rows()
        )
    assert str(excinfo.value).startswith("a.parquet: is not ")

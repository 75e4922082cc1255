"""Cancels a run's units of work when the run is killed: a process of its own that outlives it.

Mesh nodes work on without us. The guard reads which units there are; when its input ends, it removes the folder with
what the run sent, and cancels and releases the units that are left. After a normal run neither is there.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from gpufleet.remote.shards.mesh_control import MeshControl

GUARD_PROGRAM = (
    "import sys; from gpufleet.remote.shards.unit_guard import guard_units; guard_units(*sys.argv[1:])"
)


class UnitGuard:
    """The run's end of the guard."""

    def __init__(self, control: MeshControl, send_folder: Path) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", GUARD_PROGRAM, str(control.socket_path), str(send_folder)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def add_unit(self, unit: str) -> None:
        """Let the guard cancel this unit if this process dies."""
        self._write(f"+{unit}\n")

    def remove_unit(self, unit: str) -> None:
        """Tell the guard that the unit is released."""
        self._write(f"-{unit}\n")

    def close_guard(self) -> None:
        """End the guard."""
        stream = self._process.stdin
        if stream:
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        stream = self._process.stdin
        with self._lock, contextlib.suppress(OSError):
            if stream:
                stream.write(line.encode())
                stream.flush()


def guard_units(socket_path: str, send_folder: str) -> None:
    """Follow the run on standard input; remove the folder and the units that it leaves."""
    units: set[str] = set()
    for line in sys.stdin:
        change, unit = line[:1], line[1:].strip()
        (units.add if change == "+" else units.discard)(unit)
    shutil.rmtree(send_folder, ignore_errors=True)  # extra variables may be secrets
    control = MeshControl(Path(socket_path))
    for unit in sorted(units):
        control.cancel_unit(unit)
        control.release_unit(unit)

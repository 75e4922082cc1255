"""A disk of a few MiB that can be filled to the byte: a tmpfs in a mount namespace of the test's own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SIZE_MIB = 8
MOUNT = 'mount -t tmpfs -o size="$1"m gpufleet-full-disk "$2" && shift 2 && exec "$@"'


def run_on_small_disk(folder, script, *arguments):
    """Run a script with ``folder`` as a small disk, private to it; return the JSON of each line that it prints."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "mount", str(SIZE_MIB)]
    command = [*unshare, str(folder), sys.executable, str(script), str(folder), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextlib.contextmanager
def fill_disk(folder, leave_bytes):
    """Leave so many bytes of a disk free, and free all of it afterwards."""
    ballast, disk = folder / "ballast", os.statvfs(folder)
    ballast.write_bytes(b"\0" * max(0, disk.f_bavail * disk.f_frsize - leave_bytes))
    try:
        yield
    finally:
        ballast.unlink()

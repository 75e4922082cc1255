"""What outlives the node: which check ran when it went down, kept on its disk until an attempt has ended.

``running.json`` exists while a check runs. An agent that ends, of whatever cause, removes it; so one that is found
after another boot says that the node went down under this check.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .spill import read_boot_id
from .workers import run_job_with_deadline

RUNNING, CRASHES = "running.json", "crashes.json"
# A disk that hangs must not hold up the agent: after this time the node has no memory in this attempt.
DISK_SECONDS = 10.0
MAX_CRASHES = 20


class CrashMemory:
    """Files in a folder on the node's disk; without a folder it knows and keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.is_usable = folder or Path(), folder is not None
        self.crashes: list[dict[str, Any]] = []

    def open(self) -> str:
        """Read what earlier attempts left behind; return why there is no memory, or nothing."""
        answer = self._run_on_disk(self._read_crashes)
        if "error" in answer:
            return str(answer["error"])
        self.crashes = answer["value"] or []
        return ""

    def _run_on_disk(self, job: Callable[[], Any]) -> Any:
        """Run a job in a process that may hang; stop using the disk after a failure."""
        answer = run_job_with_deadline(job, DISK_SECONDS) if self.is_usable else {"value": None}
        self.is_usable = self.is_usable and "error" not in answer
        return answer

    def _read_crashes(self) -> list[dict[str, Any]]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        crashes = read_json(self.folder / CRASHES)
        known = [crash for crash in crashes if isinstance(crash, dict)] if isinstance(crashes, list) else []
        running = read_json(self.folder / RUNNING)
        if isinstance(running, dict) and running.get("boot_id") != read_boot_id():
            known = [*known, running][-MAX_CRASHES:]
            write_json(self.folder / CRASHES, known)
            (self.folder / RUNNING).unlink()
        return known

    def note_start(self, attempt: str, check_name: str) -> None:
        """Note on disk that a check begins."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        note = {"attempt": attempt, "check": check_name, "boot_id": read_boot_id(), "started_at": at}
        self._run_on_disk(lambda: write_json(self.folder / RUNNING, note))

    def note_end(self) -> None:
        """Note that no check runs any more."""
        self._run_on_disk(lambda: (self.folder / RUNNING).unlink(missing_ok=True))

    def forget(self) -> None:
        """Forget the crashes: an attempt that reports them has ended."""
        self._run_on_disk(lambda: (self.folder / CRASHES).unlink(missing_ok=True))

    def build_result(self) -> dict[str, Any] | None:
        """Return the fields of the record that reports the crashes, or None without one."""
        if not self.crashes:
            return None
        last = self.crashes[-1]
        when = f"{last.get('started_at')}, attempt {last.get('attempt')}"
        reason = f"the node went down during {last.get('check')} ({when})"
        return {
            "status": "ran", "reason": reason, "measured": len(self.crashes), "unit": "crashes",
            "raw": {"crashes": self.crashes},
        }  # fmt: skip


def read_json(path: Path) -> Any:
    """Return a file's JSON, or None: a crash may have left half of it."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return None


def write_json(path: Path, value: Any) -> None:
    """Replace a file so that a crash leaves the old or the new one, and wait until the disk has it."""
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

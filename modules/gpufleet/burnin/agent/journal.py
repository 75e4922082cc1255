"""The attempt's record on disk: JSON lines that outlive a kill, and what of them still counts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections import Counter
from typing import Any, TextIO

Record = dict[str, Any]
LOCK_SECONDS = 3.0


class JournalLockedError(RuntimeError):
    """Another agent is writing this record."""


def parse_journal_records(text: str) -> list[Record]:
    """Return the whole lines of a record; a torn last line is what a kill leaves, and is left out."""
    records: list[Record] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
    return records


def lock_file(file: TextIO) -> None:
    """Take the file for this process alone; the lock goes when the process does.

    The work of an agent that was killed a moment ago may still be ending: it gets a few seconds.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise JournalLockedError("another agent is writing this record") from None
            time.sleep(0.05)
        else:
            return


class AttemptJournal:
    """Appends records, each synced, to a file (where there is one) and to a stream."""

    def __init__(self, stream: TextIO, path: str | None = None) -> None:
        self.stream = stream
        self.file = open(path, "a+", encoding="utf-8") if path else None  # noqa: SIM115, PTH123 - kept open
        if self.file:
            lock_file(self.file)

    def resume_attempt(self, attempt: str) -> list[Record]:
        """Return what this attempt has recorded already; another attempt's record is cleared."""
        if not self.file:
            return []
        self.file.seek(0)
        data = bytes(self.file.buffer.read())
        records = parse_journal_records(data.decode("utf-8", errors="replace"))
        is_same_attempt = (
            bool(records) and records[0].get("type") == "start" and records[0].get("attempt") == attempt
        )
        kept_records = records if is_same_attempt else []
        # Cut in one step: a kill at this moment loses nothing that was recorded, and no line follows a torn one.
        os.ftruncate(self.file.fileno(), data.rfind(b"\n") + 1 if is_same_attempt else 0)
        self._sync()
        return kept_records

    def append_record(self, record: Record) -> None:
        """Append one record."""
        line = json.dumps(record) + "\n"
        for out in filter(None, (self.file, self.stream)):
            out.write(line)
            out.flush()
        self._sync()

    def replay_records_to_stream(self, records: list[Record]) -> None:
        """Put records of before a kill on the stream, so that it holds the whole attempt."""
        for record in records:
            self.stream.write(json.dumps(record) + "\n")
        self.stream.flush()

    def _sync(self) -> None:
        if self.file:
            self.file.flush()
            # A disk that is full or failing is what the storage check is there to find.
            with contextlib.suppress(OSError):
                os.fsync(self.file.fileno())

    def close_file(self) -> None:
        """Let go of the file, as a forked check must."""
        if self.file:
            self.file.close()


def list_finished_checks(records: list[Record]) -> list[str]:
    """Return the checks that have a result."""
    return [str(record.get("name")) for record in records if record.get("type") == "check"]


def count_check_starts(records: list[Record]) -> Counter[str]:
    """Return how often each check was begun."""
    return Counter(str(record.get("name")) for record in records if record.get("type") == "begin")

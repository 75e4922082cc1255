"""The attempt's record on disk: JSON lines that outlive a kill, and what of them still counts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections import Counter
from typing import Any, Callable, TextIO  # noqa: UP035 - Python 3.9 runs this

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

    def resume_attempt(self, is_resumable: Callable[[list[Record]], bool]) -> list[Record]:
        """Return what an attempt that can be resumed has recorded already; any other record is cleared."""
        if not self.file:
            return []
        self.file.seek(0)
        data = bytes(self.file.buffer.read())
        whole_lines = data[: data.rfind(b"\n") + 1]  # a kill may leave a record without its end of line
        records = parse_journal_records(whole_lines.decode("utf-8", errors="replace"))
        is_resumed = bool(records) and records[0].get("type") == "start" and is_resumable(records)
        # Cut in one step: a kill at this moment loses nothing that was recorded, and no line follows a torn one.
        os.ftruncate(self.file.fileno(), len(whole_lines) if is_resumed else 0)
        self._sync()
        return records if is_resumed else []

    def append_record(self, record: Record) -> None:
        """Append one record."""
        line = json.dumps(record) + "\n"
        if self.file:
            try:
                self.file.write(line)
                self.file.flush()
            except OSError as error:
                self._give_up_file(error)
        self.stream.write(line)
        self.stream.flush()
        self._sync()

    def _give_up_file(self, error: OSError) -> None:
        """Go on without the file: the disk is full or failing, which the storage check is there to find."""
        print(f"agent: the record cannot be kept: {error.strerror}", file=sys.stderr)
        with contextlib.suppress(OSError):
            self.close_file()
        self.file = None

    def replay_records_to_stream(self, records: list[Record]) -> None:
        """Put records of before a kill on the stream, so that it holds the whole attempt."""
        for record in records:
            self.stream.write(json.dumps(record) + "\n")
        self.stream.flush()

    def _sync(self) -> None:
        if self.file:
            with contextlib.suppress(OSError):
                self.file.flush()
                os.fsync(self.file.fileno())

    def close_file(self) -> None:
        """Let go of the file, as a forked check must."""
        if self.file:
            self.file.close()


def list_finished_checks(records: list[Record]) -> set[tuple[str, int]]:
    """Return the checks that have a result, each with its round."""
    return {identify_check(record) for record in records if record.get("type") == "check"}


def count_check_starts(records: list[Record]) -> Counter[tuple[str, int]]:
    """Return how often each check was begun in each round."""
    return Counter(identify_check(record) for record in records if record.get("type") == "begin")


def identify_check(record: Record) -> tuple[str, int]:
    """Return a check's name and round; records of profiles with one round do not name it."""
    round_number = record.get("round", 1)
    return str(record.get("name")), round_number if isinstance(round_number, int) else 1

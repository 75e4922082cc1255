"""What a mesh node sends back, before ansible-runner processes it: bounded, typed, about the shard's hosts only.

A node is trusted with its hosts. It must not report about other hosts, and must not write files here: names of event
files are checked, and the archive of artifacts is dropped unread, because ansible-runner unpacks its links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gpufleet.boundary import RUNNER_EVENT, decode_json, make_printable
from gpufleet.errors import InputError
from gpufleet.remote.completion import RECORD_LISTS, RECORDS, has_valid_record
from gpufleet.remote.progress import strip_colours_and_newlines

MIB = 1 << 20
BASE_BYTES = 64 * MIB
BYTES_PER_HOST = 16 * MIB
TEXT_LIMIT = 1000
CHUNK = 1 << 16
MAX_COUNTER = 10**9
STATUSES = frozenset({"starting", "running", "successful", "failed", "canceled", "timeout", "error"})
IDENTIFIER = re.compile(r"[0-9A-Za-z-]{1,64}(_[0-9]{1,9})?")  # runner's callback numbers a repeated task
KIND = re.compile(r"[a-z_]{1,64}")
TEXTS = (
    "host", "task", "name", "role", "play", "playbook_uuid", "play_uuid", "task_uuid", "task_action", "start", "end",
)  # fmt: skip
STATISTICS = ("processed", "dark", "failures", "rescued", "ok", "changed", "skipped", "ignored")


@dataclass
class ResultStream:
    """The input of ansible-runner's ``process``. ``failure`` is why the stream was cut, ``last_line`` its last text."""

    source: BinaryIO
    hosts: Collection[str]
    failure: str = ""
    last_line: str = ""
    ignored: int = 0
    _received: int = field(default=0, repr=False)

    @property
    def byte_limit(self) -> int:
        """Return how much a shard of this size may send."""
        return BASE_BYTES + BYTES_PER_HOST * len(self.hosts)

    def readline(self) -> bytes:
        """Return the next valid line as JSON; nothing at the end or after a failure."""
        while not self.failure:
            line = self.source.readline(RUNNER_EVENT.bytes + 1)
            self._received += len(line)
            if not line:
                break
            if self._received > self.byte_limit:
                self.failure = f"the node sent more than {self.byte_limit // MIB} MiB"
            elif len(line) > RUNNER_EVENT.bytes:
                self.failure = f"the node sent a line of more than {RUNNER_EVENT.bytes // MIB} MiB"
            elif (message := self._read_message(line)) is not None:
                return json.dumps(message).encode() + b"\n"
        return b""

    def _read_message(self, line: bytes) -> dict[str, Any] | None:
        """Return a message of ansible-runner with known parts only, or None where the line is to be skipped."""
        try:
            message = decode_json(line, "mesh node", RUNNER_EVENT)
        except InputError:
            self.last_line = strip_colours_and_newlines(line.decode(errors="replace"))[:TEXT_LIMIT]
            return None
        if not isinstance(message, dict):
            self.ignored += 1
        elif "status" in message:
            return self._read_status(message)
        elif "zipfile" in message:
            self._skip_archive(message["zipfile"])
        elif "eof" in message:
            return {"eof": True}
        elif message.get("event") != "keepalive":
            return self._read_event(message)
        return None

    def _read_status(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        if message["status"] not in STATUSES:
            self.ignored += 1
            return None
        explanation = make_printable(str(message.get("job_explanation") or ""), TEXT_LIMIT)
        return {"status": message["status"], "job_explanation": explanation}

    def _read_event(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        event = check_runner_event(message, self.hosts)
        if event is None:
            self.ignored += 1
            return None
        lines = event["stdout"].strip().splitlines()
        if lines:
            self.last_line = strip_colours_and_newlines(lines[-1])[:TEXT_LIMIT]
        return event

    def _skip_archive(self, size: Any) -> None:
        """Skip an archive in base64, which has no line of its own."""
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= self.byte_limit:
            self.failure = f"the node announced an archive of {make_printable(str(size), 40)} bytes"
            return
        remaining = -(-size // 3) * 4
        while remaining and (chunk := self.source.read(min(remaining, CHUNK))):
            remaining -= len(chunk)
            self._received += len(chunk)


def check_runner_event(message: Mapping[str, Any], hosts: Collection[str]) -> dict[str, Any] | None:
    """Return an event with the parts that are read here, or None if one has a wrong type or names another host."""
    counter, uuid, kind = message.get("counter"), message.get("uuid"), message.get("event")
    if not isinstance(counter, int) or isinstance(counter, bool) or not 0 < counter <= MAX_COUNTER:
        return None
    if not isinstance(uuid, str) or not IDENTIFIER.fullmatch(uuid):
        return None
    if not isinstance(kind, str) or not KIND.fullmatch(kind):
        return None
    data = message.get("event_data") or {}
    if not isinstance(data, dict) or not has_valid_event_data(data, hosts):
        return None
    if kind == "playbook_on_stats":
        data = data | {name: keep_hosts(data.get(name), hosts) for name in STATISTICS}
    if kind in RECORDS:
        data = data | {
            name: [host for host in data.get(name) or () if host in hosts] for name in RECORD_LISTS
        }
    stdout, created = message.get("stdout") or "", message.get("created") or ""
    if not isinstance(stdout, str) or not isinstance(created, str):
        return None
    return {
        "counter": counter, "uuid": uuid, "event": kind, "stdout": stdout, "created": created, "event_data": data,
    }  # fmt: skip


def has_valid_event_data(data: Mapping[str, Any], hosts: Collection[str]) -> bool:
    """Return True if the texts are texts, the result is a mapping and the host is one of the shard's."""
    texts = [data[name] for name in TEXTS if data.get(name) is not None]
    if not all(isinstance(text, str) and len(text) <= TEXT_LIMIT for text in texts):
        return False
    if not isinstance(data.get("res") or {}, dict):
        return False
    return has_valid_record(data) and (data.get("host") is None or data["host"] in hosts)


def keep_hosts(counts: Any, hosts: Collection[str]) -> dict[str, Any]:
    """Return a statistic's entries about the shard's hosts."""
    return (
        {name: value for name, value in counts.items() if name in hosts} if isinstance(counts, dict) else {}
    )

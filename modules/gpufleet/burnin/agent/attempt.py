"""One attempt: its rounds of checks, from the start record to the end record, resumed where it was stopped."""

from __future__ import annotations

import calendar
import os
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import AGENT_VERSION
from .busy import find_busy_reason
from .crash_memory import CrashMemory
from .fabric import read_link_counters
from .host import HostAccess, RawCheckResult
from .identity import read_host_identity
from .journal import AttemptJournal, Record, count_check_starts, identify_check, list_finished_checks
from .profiles import CHECKS, compute_time_limit_s
from .spill import read_boot_id
from .supervisor import SupervisionPolicy, kill_descendants
from .workers import run_job_with_deadline

# A check that was begun this often and never finished takes the host or the agent down with it.
TRIES = 2
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
MAX_AGE_SECONDS = 7 * 86_400.0
CONTROLLER_TIME = "controller_time"
MAX_TIME_AGE_SECONDS = 60.0
LINK_SECONDS = 10.0
# What of an interrupted attempt must be the same now.
SAME_FIELDS = ("profile", "agent_version")
HARDWARE_FIELDS = ("serial", "machine_id", "model", "arch", "cores", "hardware")


def utc_timestamp() -> str:
    """Return the time, in UTC."""
    return time.strftime(TIME_FORMAT, time.gmtime())


@dataclass
class Attempt:
    """What one attempt runs, on which host, and where it is recorded."""

    name: str
    profile: str
    check_names: list[str]
    host: HostAccess
    journal: AttemptJournal
    memory: CrashMemory
    started_at: float = 0.0

    def run(self, *, continues_any: bool = False) -> str:
        """Run what remains of the attempt; return why the node is too busy for it, or nothing.

        ``continues_any``: an attempt of another name, whose record nobody has collected yet, is continued too, if it is
        young and its profile, parameters and machine are the same.
        """
        self.started_at = time.monotonic()
        start = self.build_start_record()
        before = self.journal.resume_attempt(
            lambda records: (
                self.name == records[0].get("attempt") or (continues_any and is_same_work(records[0], start))
            )
        )
        links = (before[0] if before else start).get("links")
        self.host = replace(self.host, start_links=links if isinstance(links, dict) else {})
        self.journal.replay_records_to_stream(before)
        if any(record.get("type") == "end" for record in before):
            return ""
        if not before:
            self.journal.append_record(start)
        self._record_crashes()
        busy = find_busy_reason(self.host) if any(CHECKS[name].is_load for name in self.check_names) else ""
        if busy:
            self._record_busy_node(before, busy)
            return busy
        self._run_rounds(before)
        return ""

    def _run_rounds(self, before: list[Record]) -> None:
        """Run the remaining checks of each round; a round that would end after the budget is not begun."""
        done, starts = list_finished_checks(before), count_check_starts(before)
        records = [shorten_record(record) for record in before if record.get("type") == "check"]
        budget = self.host.get_parameter("budget_seconds", 0.0)
        for round_number in range(1, self.host.get_parameter("rounds", 1) + 1):
            if budget and round_number > 1 and not has_time_for_round(records, round_number, budget):
                break
            for name in self.check_names:
                if (name, round_number) not in done:
                    result = self._run_check(name, round_number, starts[name, round_number])
                    records.append(shorten_record(result))
        counts = Counter(str(record.get("status")) for record in records)
        totals = {status: counts[status] for status in ("ran", "not_run", "error")}
        self.journal.append_record(
            {"type": "end", "attempt": self.name, "ended_at": utc_timestamp(), **totals}
        )
        self.memory.forget()

    def _run_check(self, check_name: str, round_number: int, start_count: int) -> Record:
        """Run one check and record it; give up on one that never finishes."""
        started, clock = utc_timestamp(), time.monotonic()
        numbered = {"round": round_number} if self.host.get_parameter("rounds", 1) > 1 else {}
        head = {"name": check_name, **numbered}
        if start_count >= TRIES:
            result = RawCheckResult(
                "error",
                f"begun {start_count} times and never finished: the agent or the host stopped during this check",
            )
        else:
            # First the note on the disk: who sees the record must be able to rely on it.
            if CHECKS[check_name].is_load:
                self.memory.note_start(self.name, check_name)
            self.journal.append_record(
                {"type": "begin", **head, "started_at": started, "boot_id": read_boot_id()}
            )
            result = run_check(check_name, self._refresh_host())
            self.memory.note_end()
        times = {
            "started_at": started,
            "ended_at": utc_timestamp(),
            "seconds": round(time.monotonic() - clock, 1),
        }
        record = {"type": "check", **head, **asdict(result), **times}
        self.journal.append_record(record)
        return record

    def _refresh_host(self) -> HostAccess:
        """Return the host without the controller's time, once that is old: it was taken before the first check."""
        if time.monotonic() - self.started_at < MAX_TIME_AGE_SECONDS:
            return self.host
        params = {key: value for key, value in self.host.params.items() if key != CONTROLLER_TIME}
        return replace(self.host, params=params)

    def _record_crashes(self) -> None:
        """Record when the node went down under load before; repeated on each resume, with all that is known."""
        result = self.memory.build_result()
        if result:
            self.journal.append_record(
                {"type": "check", "name": "crash", **result, "ended_at": utc_timestamp()}
            )

    def _record_busy_node(self, before: list[Record], reason: str) -> None:
        """Give every remaining check its reason on the stream alone, so that the attempt can be resumed later."""
        done = list_finished_checks(before)
        self.journal.close_file()
        self.journal.file = None
        for name in self.check_names:
            if (name, 1) not in done:
                self.journal.append_record(
                    {
                        "type": "check",
                        "name": name,
                        **asdict(RawCheckResult("not_run", f"the node is busy: {reason}")),
                    }
                )
        self.journal.append_record(
            {"type": "end", "attempt": self.name, "ended_at": utc_timestamp(), "busy": reason}
        )

    def build_start_record(self) -> Record:
        """Return the record with attempt, profile, parameters and host."""
        return {
            "type": "start",
            "attempt": self.name,
            "profile": self.profile,
            "agent_version": AGENT_VERSION,
            "started_at": utc_timestamp(),
            "rehearsal": self.host.params["rehearsal"],
            "params": self.host.params,
            "boot_id": read_boot_id(),
            "host": read_host_identity(self.host),
            "links": self.read_links(),
        }

    def read_links(self) -> dict[str, Any]:
        """Return the counters of the links now; nothing where a driver does not answer."""
        root = self.host.get_parameter("sysfs", "/sys").rstrip("/")
        answer = run_job_with_deadline(lambda: read_link_counters(self.host, root), LINK_SECONDS)
        return answer.get("value") or {}


def run_check(check_name: str, host: HostAccess) -> RawCheckResult:
    """Run one check in a process of its own and turn whatever happens into a result; nothing of it runs on."""
    limit_s = compute_time_limit_s(check_name, host.params)
    answer = run_job_with_deadline(lambda: asdict(CHECKS[check_name].run(host)), limit_s)
    kill_descendants(os.getpid(), SupervisionPolicy())
    return (
        RawCheckResult("error", answer["error"]) if "error" in answer else RawCheckResult(**answer["value"])
    )


def is_same_work(before: Record, now: Record) -> bool:
    """Return whether an earlier start record is of the same profile, parameters and machine."""
    host = before.get("host")
    if is_old(before.get("started_at")):
        return False
    if drop_controller_time(before.get("params")) != drop_controller_time(now["params"]):
        return False
    return all(before.get(name) == now[name] for name in SAME_FIELDS) and (
        isinstance(host, dict) and all(host.get(name) == now["host"].get(name) for name in HARDWARE_FIELDS)
    )


def is_old(started_at: Any) -> bool:
    """Return whether a record's time is so far away that the node may have been changed since."""
    try:
        seconds = calendar.timegm(time.strptime(str(started_at), TIME_FORMAT))
    except ValueError:
        return True
    return abs(time.time() - seconds) > MAX_AGE_SECONDS


def drop_controller_time(params: Any) -> Any:
    """Return parameters without the one that differs in each run."""
    return {**params, CONTROLLER_TIME: 0} if isinstance(params, dict) else params


def shorten_record(record: Record) -> Record:
    """Return what the agent itself still needs of a record: a soak's measurements do not stay in its memory."""
    return {key: record.get(key) for key in ("name", "round", "status", "seconds") if key in record}


def has_time_for_round(records: list[Record], round_number: int, budget_s: float) -> bool:
    """Return whether one more round, as long as the longest one so far, fits the budget of working time."""
    rounds: dict[int, float] = defaultdict(float)
    for record in records:
        seconds = record.get("seconds", 0.0)
        rounds[identify_check(record)[1]] += seconds if isinstance(seconds, (int, float)) else 0.0
    # A round that has begun, before a kill, is finished.
    if rounds.get(round_number):
        return True
    return sum(rounds.values()) + max(rounds.values(), default=0.0) <= budget_s

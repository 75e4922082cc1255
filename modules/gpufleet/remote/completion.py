"""Which hosts of a run finished every play that selects them. Pure.

Ansible's statistics count a host as processed as soon as one task ran on it, and as failed only if a task failed on
it. A host that a failing batch leaves behind is in neither column. The callback ``gpufleet.fleet.play_record``
therefore adds two events: which hosts a play selects, and which of them finished a batch. Without them only results
count, and what they do not show is not done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

PLAY_SELECTED = "gpufleet_play_selected"
BATCH_ENDED = "gpufleet_batch_ended"
RECORDS = frozenset({PLAY_SELECTED, BATCH_ENDED})
RECORD_LISTS = ("selected", "finished", "stopped")

PLAY_CUT = "not done: Ansible ended the play early on this host"
RUN_CUT = "not done: Ansible ended the run in the play"
NO_TURN = "not reached: no task ran on this host in the play"
NOT_SELECTED = "not reached: no play selected this host"

_RESULTS = frozenset({"runner_on_ok", "runner_on_skipped", "runner_on_failed", "runner_on_unreachable"})
_META = frozenset({"meta", "ansible.builtin.meta", "ansible.legacy.meta"})
_OF_A_PROCESS = frozenset({"playbook_on_start", "playbook_on_play_start", "playbook_on_stats"})
_STATISTICS = ("processed", "dark", "failures", "rescued")


class Gap(NamedTuple):
    """Why a host is not done."""

    status: Literal["stopped", "not_reached"]
    reason: str


@dataclass
class _Batch:
    """The results of one batch. It is calm while no task failed and none may have ended it (``meta``).

    Ansible stops hosts without an event, but only after a failure or by a ``meta`` task. A host that has a result of
    the last task, which began after all of these, was not stopped.
    """

    hosts: set[str] = field(default_factory=set)
    at_last_task: set[str] = field(default_factory=set)
    is_calm: bool = True
    is_last_task_calm: bool = True

    def shows_end_of(self, host: str) -> bool:
        """Return True if a host's results show that it got to the end of the batch."""
        return host in self.hosts and (self.is_calm or (self.is_last_task_calm and host in self.at_last_task))

    def begin_task(self, *, is_meta: bool) -> None:
        self.at_last_task, self.is_last_task_calm = set(), True
        self.is_calm = self.is_calm and not is_meta

    def add_result(self, host: str, *, is_trouble: bool) -> None:
        self.hosts.add(host)
        self.at_last_task.add(host)
        if is_trouble:
            self.is_calm = self.is_last_task_calm = False


@dataclass
class PlayTrace:
    """What is known of one play: by its record, else by the results of its batches."""

    id: str
    name: str
    selected: frozenset[str] | None = None  # None: there is no record
    has_handlers: bool = True
    finished: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    batches: list[_Batch] = field(default_factory=lambda: [_Batch()])

    def find_gap(self, host: str) -> Gap | None:
        """Return why the play is not done on a host; None if it is, or if it does not select the host."""
        if self.selected is not None and (host in self.finished or host not in self.selected):
            return None
        batch = next((batch for batch in self.batches if host in batch.hosts), None)
        if self.selected is None and batch and batch.shows_end_of(host):
            return None
        if batch or host in self.stopped:
            return Gap("stopped", f"{PLAY_CUT}: {self.name}")
        return Gap("not_reached", f"{NO_TURN}: {self.name}")


@dataclass
class ProcessTrace:
    """One ansible-playbook process. ``statistics`` are those that it ends with; ``play_count`` is 0 while unknown."""

    play_count: int = 0
    plays: list[PlayTrace] = field(default_factory=list)
    statistics: dict[str, Mapping[str, Any]] | None = None

    @property
    def hosts(self) -> set[str]:
        """Return every host that the process knows of."""
        processed = self.statistics["processed"] if self.statistics else {}
        return {*processed, *(host for play in self.plays for host in play.selected or ())}

    @property
    def has_begun_all_plays(self) -> bool:
        """True if no later play is missing: Ansible leaves plays out only after trouble in the batch before them."""
        if self.play_count:
            return len(self.plays) >= self.play_count
        return bool(self.plays) and self.plays[-1].batches[-1].is_calm

    def find_gap(self, host: str) -> Gap | None:
        """Return why a host is not done; None if it finished every play that selects it."""
        gap = next(filter(None, (play.find_gap(host) for play in self.plays)), None)
        if gap or not self.plays:
            return gap or Gap("not_reached", NOT_SELECTED)
        if not self.has_begun_all_plays:
            return Gap("stopped", f"{RUN_CUT}: {self.plays[-1].name}")
        is_selected = any(host in (play.selected or ()) or play.selected is None for play in self.plays)
        return None if is_selected else Gap("not_reached", NOT_SELECTED)

    def has_only_last_task_left(self, host: str) -> bool:
        """Return True if a recorded last play runs, nothing can follow its tasks, and the host finished the others."""
        if not self.plays or len(self.plays) != self.play_count:
            return False
        last = self.plays[-1]
        if last.has_handlers or host not in (last.selected or ()):
            return False
        return not any(play.find_gap(host) for play in self.plays[:-1])

    def apply_runner_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Apply one event."""
        if kind == "playbook_on_play_start":
            self._begin_play(str(data.get("uuid") or ""), str(data.get("name") or ""))
        elif kind == "playbook_on_stats":
            self.statistics = {name: data.get(name) or {} for name in _STATISTICS}
        elif kind in RECORDS:
            self._apply_record(kind, data)
        elif self.plays:
            self._apply_result(kind, data)

    def _begin_play(self, uuid: str, name: str) -> None:
        play_id = uuid.partition("_")[0]  # runner numbers the batches: uuid, uuid_2, …
        if self.plays and play_id and self.plays[-1].id == play_id:
            self.plays[-1].batches.append(_Batch())
        else:
            self.plays.append(PlayTrace(play_id, name))

    def _apply_record(self, kind: str, data: Mapping[str, Any]) -> None:
        play_id = str(data.get("play_id") or "")
        play = next((play for play in self.plays if play.id == play_id), None)
        if play and kind == PLAY_SELECTED:
            self.play_count = data.get("play_count") or 0
            play.selected = frozenset(data.get("selected") or ())
            play.has_handlers = bool(data.get("has_handlers", True))
        elif play:  # without it, an event is missing, and the play's hosts are not done
            play.finished |= set(data.get("finished") or ())
            play.stopped |= set(data.get("stopped") or ())

    def _apply_result(self, kind: str, data: Mapping[str, Any]) -> None:
        play, host = self.plays[-1], data.get("host")
        batch = play.batches[-1]
        if kind == "playbook_on_no_hosts_matched":
            play.selected = play.selected or frozenset()
        elif kind == "playbook_on_task_start":
            batch.begin_task(is_meta=data.get("task_action") in _META)
        elif kind in _RESULTS and host:
            is_failure = kind == "runner_on_failed" and not data.get("ignore_errors")
            batch.add_result(host, is_trouble=is_failure or kind == "runner_on_unreachable")


@dataclass
class RunCompletion:
    """The processes of a run: one, or one for each shard. ``play_count`` is what is known of it before the run."""

    play_count: int = 0
    processes: list[ProcessTrace] = field(default_factory=list)
    _current: dict[str, ProcessTrace] = field(default_factory=dict)

    def apply_runner_event(self, event: Mapping[str, Any]) -> ProcessTrace:
        """Apply one event; return its process."""
        kind, data = str(event.get("event", "")), event.get("event_data") or {}
        uuid = str(data.get("playbook_uuid") or "")
        has_ended = kind == "playbook_on_start" and uuid in self._current and self._current[uuid].statistics
        if kind in _OF_A_PROCESS and (uuid not in self._current or has_ended):
            self._current[uuid] = ProcessTrace(self.play_count)
            self.processes.append(self._current[uuid])
        process = self.find_process(event)
        process.apply_runner_event(kind, data)
        return process

    def find_process(self, event: Mapping[str, Any]) -> ProcessTrace:
        """Return the process that an event is from; an empty one for an event that names none."""
        uuid = str((event.get("event_data") or {}).get("playbook_uuid") or "")
        return self._current.get(uuid) or ProcessTrace()


def has_valid_record(data: Mapping[str, Any]) -> bool:
    """Return True if what a record holds is a number of plays and lists of hosts."""
    lists: Iterable[Any] = (data.get(name) for name in RECORD_LISTS)
    return type(data.get("play_count", 0)) is int and all(
        names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
        for names in lists
    )

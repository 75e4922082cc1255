"""Applies the artifacts of a run to the registry, and judges whether the run did what it was for.

``ansible-runner process`` ends with 0 for a failed run and for a stream that was cut, so the judgement is made here:
from the statistics that end a run, from the status that ansible-runner wrote last, and from the hosts that finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet import paths
from gpufleet.boundary import OWN_STATE, make_printable, read_bytes
from gpufleet.nodes import Registry
from gpufleet.operations.ingest import EventIngester
from gpufleet.operations.ingest_summary import IngestSummary, RunVerdict
from gpufleet.operations.task_events import find_events_folder, read_artifact_events
from gpufleet.remote import UNDONE, RunProgress

STATUS_FILE = "status"
SUCCESSFUL = "successful"
CUT = "its events were cut off: the end of the run is missing"
_LONGEST_STATUS = 40


@dataclass
class RunJudge:
    """Follows the events of a run's artifacts; whatever they lack is a reason that the run is not done."""

    progress: RunProgress = field(default_factory=RunProgress)
    bad_events: int = 0

    def observe_event(self, event: Mapping[str, Any] | None) -> None:
        """Apply an event; None is a file that could not be read."""
        try:
            if event is not None:
                self.progress.apply_runner_event(dict(event))
                return
        except (AttributeError, KeyError, TypeError, ValueError):
            pass  # a part of it is not what ansible-runner writes
        self.bad_events += 1

    def judge_run(self, run_folder: Path) -> RunVerdict:
        """Return the verdict after the last event."""
        self.progress.settle_hosts(is_complete=self._has_ended())
        undone: dict[str, list[str]] = {}
        for host in sorted(self.progress.hosts.values(), key=lambda host: host.name):
            if host.status != "ok":
                status = host.status if host.status in UNDONE else "unfinished"
                undone.setdefault(status, []).append(host.name)
        return RunVerdict(make_printable(run_folder.name), self._find_problem(run_folder, undone), undone)

    def _has_ended(self) -> bool:
        """Return True if there is the end of every playbook: an older run may be in the folder too."""
        processes = self.progress.completion.processes
        return bool(processes) and all(process.statistics for process in processes)

    def _find_problem(self, run_folder: Path, undone: Mapping[str, Any]) -> str:
        status = read_run_status(run_folder)
        if not self._has_ended() or not status:
            return CUT
        if self.bad_events:
            return f"{self.bad_events} of its events are damaged"
        if status != SUCCESSFUL:
            return f"it ended as {status}"
        return "some hosts are not done" if undone else ""


def read_run_status(run_folder: Path) -> str:
    """Return the status that ansible-runner writes when a run has ended; empty if it did not come that far."""
    path = run_folder / STATUS_FILE
    if not path.is_file():
        return ""
    return make_printable(read_bytes(path, OWN_STATE).decode(errors="replace").strip(), _LONGEST_STATUS)


def ingest_artifacts(artifacts_folder: Path) -> IngestSummary:
    """Apply a run's artifacts to the registry of the current project; the summary has the run's verdict."""
    root, judge = paths.find_project_root(), RunJudge()
    with Registry(paths.registry_database_url(root)) as registry:
        summary = EventIngester.create_for_project(registry, root).ingest_stream(
            read_artifact_events(artifacts_folder, judge.observe_event)
        )
    summary.run = judge.judge_run(find_events_folder(artifacts_folder).parent)
    return summary

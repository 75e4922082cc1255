"""Runs a request on this machine or on a Receptor mesh, with a record of the hosts that are done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpufleet import paths, remote
from gpufleet.nodes import Registry
from gpufleet.operations import ingest, task_events
from gpufleet.operations.run_plan import plan_run

DEFAULT_LIMIT = "new_nodes"


@dataclass(frozen=True)
class PlaybookRequest:
    """What to run where. ``limit`` is Ansible's pattern; ``mode`` names mesh nodes; None runs it on this machine."""

    play: str = "site"
    limit: str = DEFAULT_LIMIT
    burn_in: str = "auto"
    check: bool = False
    extra_vars: tuple[str, ...] = ()
    mode: remote.ShardingOptions | None = None
    diff: bool = False
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()

    @property
    def selection(self) -> remote.TaskSelection:
        """Return the tags; raise InputError for what cannot be a tag."""
        return remote.parse_task_selection(self.tags, self.skip_tags)

    @property
    def ansible_options(self) -> str:
        """Return the options of ansible-playbook."""
        modes = [*(["--check"] if self.check else []), *(["--diff"] if self.check or self.diff else [])]
        return " ".join([*modes, *self.selection.arguments])


def pack_playbook_request(
    root: Path, request: PlaybookRequest, extra_vars: dict[str, Any], folder: Path
) -> tuple[str, ...]:
    """Write the request as an ansible-runner folder; return its hosts."""
    plan = plan_run(root, request.play, request.limit, request.selection)
    if plan.hosts:
        variables = {"gpufleet_burn_in": request.burn_in, **extra_vars}
        remote.write_runner_folder(plan, folder, variables, request.ansible_options)
    return plan.hosts


def run_playbook_request(
    plan: remote.RunPlan, request: PlaybookRequest, extra_vars: dict[str, Any], stream: TextIO
) -> remote.RunOutcome:
    """Run the request, with a record of the hosts that are done."""
    ident = remote.create_run_id()
    variables = {"gpufleet_burn_in": request.burn_in, **extra_vars}
    options = request.ansible_options
    record = remote.RunRecord(
        request.play, request.limit, request.burn_in, request.check, tuple(sorted(extra_vars)), plan.hosts,
        tags=plan.selection.tags, skip_tags=plan.selection.skip_tags,
    )  # fmt: skip
    paths.ensure_state_home(plan.root)
    recorder = _RunRecorder(paths.state_home(plan.root) / "artifacts" / ident, record)
    if request.mode is None:
        outcome = remote.run_playbook(
            plan,
            extra_vars=variables,
            options=options,
            stream=stream,
            run_id=ident,
            on_host_finished=recorder.add_finished_hosts,
        )
    else:
        with open_registry_event_sink(plan.root) as tell:
            outcome = remote.run_sharded(
                plan, request.mode, extra_vars=variables, options=options, stream=stream, run_id=ident,
                on_event=tell, on_host_finished=recorder.add_finished_hosts,
            )  # fmt: skip
    recorder.record_outcome(outcome)
    return outcome


class _RunRecorder:
    """The run's record, written again whenever a host is done."""

    def __init__(self, artifacts: Path, record: remote.RunRecord) -> None:
        self.artifacts, self.record = artifacts, record
        remote.write_run_record(artifacts, record)

    def add_finished_hosts(self, *names: str) -> None:
        self._write(self.record.with_done_hosts(names))

    def record_outcome(self, outcome: remote.RunOutcome) -> None:
        """Record the hosts that are done, and none that only seemed to be: a batch may fail after its last task."""
        done, undone = (outcome.host_names_with_status(*names) for names in (("ok",), remote.UNDONE))
        self._write(self.record.with_done_hosts(done, undone))

    def _write(self, record: remote.RunRecord) -> None:
        if record != self.record:
            self.record = record
            remote.write_run_record(self.artifacts, record)


@contextlib.contextmanager
def open_registry_event_sink(root: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that applies a mesh node's event to the registry, which Ansible can't reach from there."""
    with Registry(paths.registry_database_url(root)) as registry:
        live_ingest = ingest.EventIngester.create_for_project(registry, root, live=True)
        reader = task_events.TaskEventReader()

        def apply_node_event(event: dict[str, Any]) -> None:
            if task_event := reader.parse_runner_event(event):
                live_ingest.ingest_event(task_event)

        yield apply_node_event


def list_run_event_folders(run: remote.RunOutcome) -> list[Path]:
    """Return the folders that hold the run's events: its own, or one for each shard."""
    return sorted(path.parent for path in run.artifacts.glob("**/job_events"))

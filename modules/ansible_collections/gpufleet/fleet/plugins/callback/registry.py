# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the results of a run into the gpufleet registry. A thin adapter over gpufleet.operations.ingest."""

from __future__ import annotations

DOCUMENTATION = """
name: registry
type: aggregate
short_description: Write the results of a run into the gpufleet registry
description:
  - Records which hosts are reachable, and writes every task result with a C(gpufleet) key at once, so that a killed run
    loses at most its last task.
  - If the registry does not answer, the run continues with a warning; C(gpufleet nodes ingest) reads its artifacts
    later.
requirements: [to be listed in C(callbacks_enabled)]
author: gpufleet contributors (@gpufleet)
"""

import time  # noqa: E402 - Ansible wants its documentation above the imports
from collections import deque  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from typing import Any  # noqa: E402

from ansible.executor.task_result import CallbackTaskResult  # noqa: E402
from ansible.inventory.host import Host  # noqa: E402
from ansible.playbook.task import Task  # noqa: E402
from ansible.plugins.callback import CallbackBase  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (  # noqa: E402
    defer_import_errors,
    require_gpufleet,
)

with defer_import_errors():
    from gpufleet import nodes, paths
    from gpufleet.boundary import make_printable
    from gpufleet.errors import EnvironmentFault
    from gpufleet.operations import ingest
    from gpufleet.operations.task_events import TaskEvent, TaskEventReader, build_task_event, extract_run_name

_RETRY_SECONDS = 30
_MAX_SHOWN = 20
_MAX_WAITING = 2000  # events that wait for a registry that does not answer


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.fleet.registry"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require_gpufleet()
        self._ingest: ingest.EventIngester | None = None
        self._started: dict[tuple[str, str], datetime] = {}
        self._reader = TaskEventReader()
        self._waiting: deque[TaskEvent] = deque()
        self._lost = 0
        self._silent_until = 0.0

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        self._started[host.get_name(), task._uuid] = datetime.now(UTC)  # noqa: SLF001 - Ansible's own callbacks read it

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        self._record(result, "ok")

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:  # noqa: ARG002 - Ansible's signature
        self._record(result, "failed")

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self._record(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002 - Ansible's signature
        self._silent_until = 0.0
        self._write()
        if lost := self._lost + len(self._waiting):
            self._warn(f"{lost} results did not reach the registry; ingest them later: gpufleet nodes ingest")
        if self._ingest is None:
            return
        applied = self._ingest.summary
        for host in applied.unknown:
            self._warn(
                f"{make_printable(host)} is not in the registry or in a rack file: nothing was recorded for it"
            )
        for detail in applied.conflicts:
            self._warn(f"identity conflict: {make_printable(detail)}; see: gpufleet nodes show")
        for line in applied.bad[:_MAX_SHOWN]:
            self._warn(f"invalid report, not recorded: {line}")
        if len(applied.bad) > _MAX_SHOWN:
            self._warn(f"{len(applied.bad) - _MAX_SHOWN} more invalid reports were not recorded")

    def _record(self, result: CallbackTaskResult, outcome: str) -> None:
        """Record a result; neither an invalid result nor a failing registry stops the play."""
        try:
            self._waiting.append(self._event(result, outcome))
            while len(self._waiting) > _MAX_WAITING:
                self._waiting.popleft()
                self._lost += 1
            self._write()
        except Exception as error:  # noqa: BLE001 - no result of a host may stop the run
            self._lost += 1
            self._pause_after(error)

    def _event(self, result: CallbackTaskResult, outcome: str) -> TaskEvent:
        host, task = result.host.get_name(), result.task._uuid  # noqa: SLF001 - as above
        began = self._started.pop((host, task), None)
        return build_task_event(
            _registry_name(result.host),
            outcome,
            result.result,
            action=result.task.action,
            started_at=began,
            key=self._reader.next_event_key(task, host),
            run=extract_run_name(task),
        )

    def _write(self) -> None:
        """Write the waiting events in order; each is removed only after the registry has it."""
        while self._waiting and (registry := self._open_registry()):
            try:
                registry.ingest_event(self._waiting[0])
            except EnvironmentFault as error:
                self._pause_after(error)
                return
            except Exception as error:  # noqa: BLE001 - as above
                self._lost += 1
                self._warn(f"a result was not written: {make_printable(error)}")
            self._waiting.popleft()

    def _open_registry(self) -> ingest.EventIngester | None:
        """Return the registry's ingester, or None for some seconds after a failure."""
        if time.monotonic() < self._silent_until:
            return None
        if self._ingest is not None:
            return self._ingest
        try:
            root = paths.find_project_root()
            registry = nodes.Registry(paths.registry_database_url(root))
        except Exception as error:  # noqa: BLE001 - as above
            self._pause_after(error)
            return None
        self._ingest = ingest.EventIngester.create_for_project(registry, root, live=True)
        return self._ingest

    def _pause_after(self, error: Exception) -> None:
        self._silent_until = time.monotonic() + _RETRY_SECONDS
        self._warn(f"the registry was not written: {make_printable(error)}")

    def _warn(self, text: str) -> None:
        self._display.warning(make_printable(f"gpufleet: {text}", None))


def _registry_name(host: Host) -> str:
    """Return the host's id in the registry, else its name: a name may be given to another host."""
    return str(host.vars.get("gpufleet_id") or host.get_name())

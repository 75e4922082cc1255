# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write what a run learns into the gpufleet registry. A thin adapter over gpufleet.operations.ingest."""

from __future__ import annotations

DOCUMENTATION = """
name: registry
type: aggregate
short_description: Write what a run learns into the gpufleet registry
description:
  - Notes which hosts answer and which do not, and folds in every task result that has a C(gpufleet) key, as it
    comes, so that a killed run loses at most its last task.
  - When the registry does not answer the run goes on with a loud warning; its artifacts can be told later with
    C(gpufleet nodes ingest).
requirements: [to be listed in C(callbacks_enabled)]
author: gpufleet contributors
"""

import time  # noqa: E402 - Ansible wants its documentation above the imports
from datetime import UTC, datetime  # noqa: E402

from ansible.plugins.callback import CallbackBase  # noqa: E402

from gpufleet import nodes, paths  # noqa: E402
from gpufleet.boundary import printable  # noqa: E402
from gpufleet.operations import ingest  # noqa: E402
from gpufleet.operations.events import task_event  # noqa: E402

_RETRY_SECONDS = 30


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.fleet.registry"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._ingest = None
        self._started = {}
        self._lost = 0
        self._silent_until = 0.0

    def v2_runner_on_start(self, host, task):
        self._started[host.get_name(), task._uuid] = datetime.now(UTC)  # noqa: SLF001 - Ansible's own callbacks read it

    def v2_runner_on_ok(self, result):
        self._fold(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):  # noqa: ARG002 - Ansible's signature
        self._fold(result, "failed")

    def v2_runner_on_unreachable(self, result):
        self._fold(result, "unreachable")

    def v2_playbook_on_stats(self, stats):  # noqa: ARG002 - Ansible's signature
        if self._lost:
            self._warn(
                f"{self._lost} results did not reach the registry; tell it later: gpufleet nodes ingest"
            )
        if self._ingest is None:
            return
        for host in self._ingest.applied.unknown:
            self._warn(f"{host} is in no registry and in no rack file: nothing was noted of it")
        for detail in self._ingest.applied.conflicts:
            self._warn(f"identity conflict: {detail}; see: gpufleet nodes show")

    def _fold(self, result, outcome):
        host = result.host.get_name()
        began = self._started.pop((host, result.task._uuid), None)  # noqa: SLF001 - as above
        told = task_event(
            _known_as(result.host), outcome, result.result, action=result.task.action, started_at=began
        )
        if not self._open():
            self._lost += 1
            return
        try:
            self._ingest.apply(told)
        except Exception as error:  # noqa: BLE001 - the run must go on, whatever the registry does
            self._lost += 1
            self._fail(error)

    def _open(self):
        """Open the registry with the first result; after a failure try again, but not at every task."""
        if self._ingest is not None:
            return True
        if time.monotonic() < self._silent_until:
            return False
        try:
            root = paths.project_root()
            registry = nodes.Registry(paths.database_url(root))
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return False
        self._ingest = ingest.Ingest.of_project(registry, root)
        return True

    def _fail(self, error):
        self._silent_until = time.monotonic() + _RETRY_SECONDS
        self._warn(f"the registry was not written: {error}")

    def _warn(self, text):
        self._display.warning(printable(f"gpufleet: {text}", None))


def _known_as(host):
    """Return the registry's id where the inventory knows it: names may change hands, ids do not."""
    return host.vars.get("gpufleet_id") or host.get_name()

# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Apply a firewall and confirm it over a connection that did not exist before. See the module of this name."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

MODULE = "gpufleet.fleet.firewall"
# How long after its own deadline a host gets to put the old rules back and answer again.
GRACE_SECONDS = 45


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        applied = self._call_module(task_vars)
        if not applied.get("pending"):
            return applied
        seconds = int(self._task.args.get("confirm_seconds", 45))
        confirmed = self._confirm_rules(applied, time.monotonic() + seconds + GRACE_SECONDS, task_vars)
        return confirmed if confirmed.get("failed") else {**applied, **confirmed, "pending": False}

    def _call_module(self, task_vars: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        arguments = {**self._task.args, **more}
        answer: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args=arguments, task_vars=task_vars
        )
        return answer

    def _confirm_rules(
        self, applied: dict[str, Any], deadline: float, task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Confirm over new connections until one gets in; after the deadline it reports that the old rules are back."""
        confirm = {"confirm": applied["pending"], "applied_from": applied["connection"]}
        while True:
            self._connection.reset()
            try:
                return self._call_module(task_vars, **confirm)
            except AnsibleConnectionFailure:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

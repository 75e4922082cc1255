# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Action of a module whose change the host reverts unless a connection that did not exist before confirms it."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_fact_injection

# How long after its own deadline a host gets to restore the old state and answer again.
GRACE_SECONDS = 45


class ConfirmedChangeAction(ActionBase):
    """Run ``module``; if it returns ``pending``, call it with ``confirm`` over new connections."""

    TRANSFERS_FILES = False
    module = ""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        refuse_fact_injection()
        applied = self._call_module(task_vars)
        if not applied.get("pending"):
            return applied
        seconds = int(self._task.args.get("confirm_seconds", 45))
        confirmed = self._confirm_change(applied, time.monotonic() + seconds + GRACE_SECONDS, task_vars)
        return confirmed if confirmed.get("failed") else {**applied, **confirmed, "pending": False}

    def _call_module(self, task_vars: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        arguments = {**self._task.args, **more}
        answer: dict[str, Any] = self._execute_module(
            module_name=self.module, module_args=arguments, task_vars=task_vars
        )
        return answer

    def _confirm_change(
        self, applied: dict[str, Any], deadline: float, task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Call the module over new connections until one succeeds; after the deadline it reports the old state."""
        confirm = {"confirm": applied["pending"], "applied_from": applied["connection"]}
        while True:
            self._connection.reset()
            try:
                return self._call_module(task_vars, **confirm)
            except AnsibleConnectionFailure:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare hosts' drivers on the controller. A thin adapter over gpufleet.drivers.consistency."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from gpufleet.drivers import consistency

ARGUMENTS = {"hosts": {"type": "dict", "required": True}}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the adapter's signature
        hosts = [
            consistency.Host(name, told.get("group") or "(none)", bool(told.get("cards")), told.get("state"))
            for name, told in asked["hosts"].items()
        ]
        report = consistency.check(hosts)
        return {"table": consistency.table(report), **report.as_json()}

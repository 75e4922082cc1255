# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge a burn-in's records on the controller, for a play that must know. A thin adapter over gpufleet.burnin."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from gpufleet import burnin

ARGUMENTS = {
    "records": {"type": "list", "elements": "dict", "required": True},
    "kind": {"type": "str", "required": True},
    "profile": {"type": "str", "default": "quick"},
    "rehearsal": {"type": "bool", "default": False},
}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the adapter's signature
        report = burnin.judge(
            asked["records"], asked["kind"], asked["profile"], asked["rehearsal"], configured=True
        )
        return {"verdict": report.verdict, "reasons": list(report.reasons())}

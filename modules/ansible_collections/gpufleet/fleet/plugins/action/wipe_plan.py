# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan the wiping of a node's drives on the controller. See the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "seen": {"type": "dict", "required": True},
    "method": {"type": "str", "default": "auto"},
    "jobs": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the adapter's signature
        from gpufleet.nodes import wiping

        plan = wiping.plan(asked["seen"], asked["method"]).as_json()
        facts = {"plan": plan, "jobs": asked["jobs"]}
        return {"plan": plan, "gpufleet": {"node": asked["node"], "event": "wipe_planned", "facts": facts}}

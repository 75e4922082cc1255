# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan a host's driver on the controller. A thin adapter over gpufleet.drivers; see the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from gpufleet.drivers import Facts, Wanted, plan

ARGUMENTS = {
    "hardware": {"type": "dict", "required": True},
    "wanted": {"type": "raw", "default": {}},
    "plan_only": {"type": "bool", "default": False},
}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        made = plan(Facts.from_json(asked["hardware"]), Wanted.from_json(asked["wanted"]))
        told = made.as_json()
        result: dict[str, Any] = {"plan": told, "ansible_facts": {"driver_plan": told}}
        if asked["plan_only"]:  # what `gpufleet configure --plan` shows; the registry keeps none of it
            node = task_vars.get("inventory_hostname")
            result["gpufleet"] = {"node": node, "event": "driver_plan", "plan": told}
        elif made.refusal:
            result.update(failed=True, msg=f"{made.refusal.message}; {made.refusal.remedy}")
        return result

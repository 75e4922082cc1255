# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan a host's driver on the controller. A thin adapter over gpufleet.drivers; see the module of this name."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from gpufleet.drivers import Facts, Wanted, plan
from gpufleet.errors import InputError

ARGUMENTS = {
    "hardware": {"type": "dict", "required": True},
    "wanted": {"type": "raw", "default": {}},
    "plan_only": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=ARGUMENTS)
        try:
            made = plan(Facts.from_json(asked["hardware"]), Wanted.from_json(asked["wanted"]))
        except InputError as wrong:
            result.update(failed=True, msg=str(wrong))
            return result
        told = made.as_json()
        result.update(changed=False, plan=told, ansible_facts={"driver_plan": told})
        if asked["plan_only"]:  # what `gpufleet configure --plan` shows; the registry keeps none of it
            node = (task_vars or {}).get("inventory_hostname")
            result["gpufleet"] = {"node": node, "event": "driver_plan", "plan": told}
        if made.refusal and not asked["plan_only"]:
            result.update(failed=True, msg=f"{made.refusal.message}; {made.refusal.remedy}")
        return result

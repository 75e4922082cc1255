# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan the wiping of a node's drives on the controller. See the module of this name."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "seen": {"type": "dict", "required": True},
    "method": {"type": "str", "default": "auto"},
    "jobs": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        from gpufleet.errors import InputError
        from gpufleet.nodes import wiping

        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=ARGUMENTS)
        try:
            plan = wiping.plan(asked["seen"], asked["method"]).as_json()
        except InputError as wrong:
            return {**result, "failed": True, "msg": str(wrong)}
        told = {
            "node": asked["node"],
            "event": "wipe_planned",
            "facts": {"plan": plan, "jobs": asked["jobs"]},
        }
        result.update(changed=False, plan=plan, gpufleet=told)
        return result

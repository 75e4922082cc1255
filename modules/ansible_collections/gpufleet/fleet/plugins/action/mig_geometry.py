# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check a MIG geometry on the controller. A thin adapter over gpufleet.drivers.mig; see the module of this name."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from gpufleet.drivers import mig
from gpufleet.errors import InputError

ARGUMENTS = {
    "wanted": {"type": "raw", "required": True},
    "devices": {"type": "list", "elements": "str", "required": True},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=ARGUMENTS)
        try:
            plan = mig.geometry(asked["wanted"], asked["devices"])
        except InputError as refused:
            result.update(failed=True, msg=f"MIG geometry refused, nothing was touched: {refused}")
            return result
        result.update(changed=False, plan=plan, config=mig.parted(plan))
        return result

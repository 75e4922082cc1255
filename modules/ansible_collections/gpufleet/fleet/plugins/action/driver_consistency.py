# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare hosts' drivers on the controller. A thin adapter over gpufleet.drivers.consistency."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from gpufleet.drivers import consistency

ARGUMENTS = {"hosts": {"type": "dict", "required": True}}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hosts = [
            consistency.Host(name, told.get("group") or "(none)", bool(told.get("cards")), told.get("state"))
            for name, told in asked["hosts"].items()
        ]
        report = consistency.check(hosts)
        result.update(changed=False, table=consistency.table(report), **report.as_json())
        return result

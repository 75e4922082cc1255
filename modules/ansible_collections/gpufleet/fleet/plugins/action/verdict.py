# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge a burn-in's records on the controller, for a play that must know. A thin adapter over gpufleet.burnin."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from gpufleet import burnin

ARGUMENTS = {
    "records": {"type": "list", "elements": "dict", "required": True},
    "kind": {"type": "str", "required": True},
    "profile": {"type": "str", "default": "quick"},
    "rehearsal": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=ARGUMENTS)
        report = burnin.judge(
            asked["records"], asked["kind"], asked["profile"], asked["rehearsal"], configured=True
        )
        result.update(changed=False, verdict=report.verdict, reasons=list(report.reasons()))
        return result

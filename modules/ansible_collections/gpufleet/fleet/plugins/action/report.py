# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Give the registry what a play knows of its host; nothing runs on the host. See the module of this name."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

EVENTS = ["commissioned", "configured", "configure_failed", "drivers_failed"]
PARTS = ["base", "drivers", "containers", "fabric", "application"]
ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "event": {"type": "str", "required": True, "choices": EVENTS},
    "part": {"type": "str", "default": "base", "choices": PARTS},
    "attempt": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        result.update(changed=False, gpufleet=arguments)
        return result

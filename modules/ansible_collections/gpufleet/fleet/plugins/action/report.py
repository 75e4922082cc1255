# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Give the registry what a play knows of its host; nothing runs on the host. See the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction

EVENTS = ["commissioned", "configured", "configure_failed", "drivers_failed"]
PARTS = ["base", "drivers", "containers", "fabric", "application"]
ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "event": {"type": "str", "required": True, "choices": EVENTS},
    "part": {"type": "str", "default": "base", "choices": PARTS},
    "attempt": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the adapter's signature
        return {"gpufleet": asked}

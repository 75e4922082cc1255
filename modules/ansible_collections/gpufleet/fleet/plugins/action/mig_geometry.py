# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check a MIG geometry on the controller. A thin adapter over gpufleet.drivers.mig; see the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from gpufleet.drivers import mig

ARGUMENTS = {
    "wanted": {"type": "raw", "required": True},
    "devices": {"type": "list", "elements": "str", "required": True},
}


class ActionModule(ControllerAction):
    ARGUMENTS = ARGUMENTS
    REFUSED = "MIG geometry refused, nothing was touched: "

    def answer(self, asked: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the adapter's signature
        plan = mig.geometry(asked["wanted"], asked["devices"])
        return {"plan": plan, "config": mig.parted(plan)}

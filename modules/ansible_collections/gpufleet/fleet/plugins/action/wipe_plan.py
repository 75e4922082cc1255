# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan the wiping of a node's drives on the controller. See the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        from gpufleet.nodes import wipe_plan

        plan = wipe_plan.plan_wipe(options["drive_facts"], options["method"]).as_json()
        facts = {"plan": plan, "jobs": options["jobs"]}
        return {"plan": plan, "gpufleet": {"node": options["node"], "event": "wipe_planned", "facts": facts}}

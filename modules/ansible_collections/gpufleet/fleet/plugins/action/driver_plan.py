# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan a host's driver on the controller. A thin adapter over gpufleet.drivers; see the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers
    from gpufleet.operations.site_file import load_site_cards


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        driver_plan = plan_drivers(
            HostFacts.from_json(options["hardware"]),
            RequestedSoftware.from_json(options["requested_software"]),
            load_site_cards(),
        )
        plan_json = driver_plan.as_json()
        result: dict[str, Any] = {"plan": plan_json}
        if options["plan_only"]:  # what `gpufleet configure --plan` shows; the registry keeps none of it
            node = task_vars.get("inventory_hostname")
            result["gpufleet"] = {"node": node, "event": "driver_plan", "plan": plan_json}
        elif driver_plan.refusal:
            result.update(failed=True, msg=f"{driver_plan.refusal.message}; {driver_plan.refusal.remedy}")
        return result

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Switch a node's power through its BMC, from the controller. See the module of this name."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_forged_settings
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import read_known_variables


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        from gpufleet.errors import InputError
        from gpufleet.operations import power
        from gpufleet.remote.bmc import PowerReport

        refuse_forged_settings(task_vars, read_known_variables().settings)
        power_options = power.PowerOptions(
            action="read" if self._task.check_mode else options["state"],
            user=options["user"],
            password=options["password"],
            serial=options["serial"],
            identifiers=options["identifiers"],
            force=options["force"],
            shutdown_seconds=options["shutdown_seconds"],
            contact_seconds=options["contact_seconds"],
            rehearsal=bool(os.environ.get("GPUFLEET_REHEARSAL")),
        )
        try:
            report = power.control_power(options["bmc"], power_options)
        except InputError as error:
            report = PowerReport(problem=str(error)[:500])
        line = power.describe_power(report)
        facts = power.build_power_facts(report, str(options["bmc"].get("protocol", "")))
        result: dict[str, Any] = {
            "changed": bool(report.orders),
            "msg": line,
            "power": {"state": report.state, "was": report.was, "problem": report.problem},
            "gpufleet": {"node": options["node"], "event": "power", "facts": facts},
        }
        if report.problem and options["required"]:
            result["failed"] = True
        elif report.problem or report.notes:
            self._display.warning(f"{options['node']}: {line}")
        return result

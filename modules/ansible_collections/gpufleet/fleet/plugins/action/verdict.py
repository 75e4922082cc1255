# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge a burn-in's records on the controller, for a play that must know. A thin adapter over gpufleet.operations."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.operations.site_thresholds import judge_at_site


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        report = judge_at_site(
            options["records"],
            options["kind"],
            options["profile"],
            options["rehearsal"],
            is_configured=True,
            expected=task_vars.get("gpufleet_burn_in_expected") or {},
        )
        return {"verdict": report.verdict, "reasons": list(report.list_unhealthy_reasons())}

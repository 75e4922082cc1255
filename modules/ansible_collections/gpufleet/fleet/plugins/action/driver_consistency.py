# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare hosts' drivers on the controller. A thin adapter over gpufleet.drivers.consistency."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.drivers import consistency


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        hosts = [
            consistency.HostDriverState(
                name, entry.get("group") or "(none)", bool(entry.get("cards")), entry.get("state")
            )
            for name, entry in options["hosts"].items()
        ]
        report = consistency.check_driver_consistency(hosts)
        skews: dict[str, list[str]] = {}
        for finding in report.findings:
            if finding.kind == "skew":
                skews.setdefault(finding.host, []).append(finding.message)
        return {"table": consistency.format_consistency_report(report), "skews": skews, **report.as_json()}

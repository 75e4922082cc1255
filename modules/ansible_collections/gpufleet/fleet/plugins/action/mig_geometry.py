# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check a MIG geometry on the controller. A thin adapter over gpufleet.drivers.mig; see the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.drivers import mig


class ActionModule(ControllerAction):
    ERROR_PREFIX = "MIG geometry refused, nothing was changed: "

    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plan = mig.resolve_mig_geometry(options["geometry"], options["devices"])
        return {"plan": plan, "config": mig.build_mig_parted_config(plan)}

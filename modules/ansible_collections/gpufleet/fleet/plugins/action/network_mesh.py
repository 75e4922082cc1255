# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan tests of hosts and compare them on the controller. A thin adapter over gpufleet.burnin.mesh_run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.boundary import OWN_STATE, read_text, write_text
    from gpufleet.burnin import mesh, mesh_run


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if len(options["hosts"]) < mesh.MIN_PARTNERS:
            raise AnsibleActionFail(
                f"a mesh needs two hosts without a job, this run has {', '.join(options['hosts']) or 'none'};"
                " give --limit all nodes of a rack or fabric"
            )
        plan = mesh_run.MeshPlan(
            tuple(options["hosts"]),
            {str(host): str(domain or "") for host, domain in options["domains"].items()},
            mesh_run.choose_mode(options["mode"], len(options["hosts"]), options["pairs_up_to"]),
            options["between_at_once"],
        )
        launched, measured = options["launched"], options["measured"]
        file = Path(options["state_file"]) if options["state_file"] else None
        earlier: list[dict[str, Any]] = options["earlier"]
        if file and not launched and file.is_file():
            launched, earlier = mesh_run.read_run(read_text(file, OWN_STATE), str(file), plan)
        step = mesh_run.plan_step(plan, launched, [*earlier, *measured])
        result = {"addresses": options["hosts"], "mode": plan.mode, "earlier": earlier, **step.as_json()}
        if step.rounds and file:
            write_text(file, mesh_run.format_run(plan, launched, [*earlier, *measured]))
        if not step.rounds:
            result |= mesh_run.judge_run(plan, launched, [*earlier, *measured])
            if file:
                file.unlink(missing_ok=True)
        return result

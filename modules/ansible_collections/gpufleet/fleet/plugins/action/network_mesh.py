# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan pairs of hosts and compare them on the controller. A thin adapter over gpufleet.burnin.mesh."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.burnin import mesh


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        if len(options["hosts"]) < mesh.MIN_PARTNERS:
            raise AnsibleActionFail(
                f"a mesh needs two hosts without a job, this run has {', '.join(options['hosts']) or 'none'};"
                " give --limit all nodes of a rack or fabric"
            )
        pairs = [
            mesh.read_pair_session(
                str(session.get("node")),
                str(session.get("partner")),
                str(session.get("stdout") or ""),
                str(session.get("stderr") or ""),
            )
            for session in options["measured"]
        ]
        nodes = mesh.judge_mesh(options["hosts"], pairs)
        return {
            "addresses": options["hosts"],
            "rounds": [mesh.assign_roles(pairs) for pairs in mesh.build_rounds(list(options["hosts"]))],
            "nodes": {name: node.as_json() for name, node in nodes.items()},
            "summaries": {name: mesh.summarize_node(node) for name, node in nodes.items()},
        }

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Give the registry what a play knows of its host; nothing runs on the host. See the module of this name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        return {"gpufleet": options}

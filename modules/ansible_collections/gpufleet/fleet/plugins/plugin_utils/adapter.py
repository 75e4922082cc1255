# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Base of the actions that call gpufleet on the controller; nothing runs or changes on the host."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from functools import cache
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_fact_injection
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (
    defer_import_errors,
    require_gpufleet,
)

with defer_import_errors():
    from gpufleet.boundary import decode_yaml
    from gpufleet.errors import InputError

MODULES = "ansible_collections.gpufleet.fleet.plugins.modules"
SPEC_KEYS = ("type", "elements", "required", "default", "choices")


@cache
def load_documented_options(module_name: str) -> dict[str, dict[str, Any]]:
    """Return the argument specification in the documentation of an action's module."""
    documentation = decode_yaml(
        importlib.import_module(f"{MODULES}.{module_name}").DOCUMENTATION, module_name
    )
    return {
        option: {key: entry[key] for key in SPEC_KEYS if key in entry}
        for option, entry in documentation["options"].items()
    }


class ControllerAction(ActionBase):
    """Base of an action: a subclass implements ``compute``, which returns the keys of the result.

    Options are checked against the documentation of the module of the same name. An InputError fails the task with
    its message.
    """

    TRANSFERS_FILES = False
    _requires_connection = False
    ERROR_PREFIX = ""  # precedes the line of an InputError

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        require_gpufleet()
        refuse_fact_injection()
        spec = load_documented_options(type(self).__module__.rpartition(".")[2])
        __, options = self.validate_argument_spec(argument_spec=spec)
        try:
            computed = self.compute_result(options, task_vars or {})
        except InputError as error:
            return {**result, "failed": True, "msg": f"{self.ERROR_PREFIX}{error}"}
        return {**result, "changed": False, **computed}

    @abstractmethod
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the keys of the result; raise InputError to fail the task with one line."""

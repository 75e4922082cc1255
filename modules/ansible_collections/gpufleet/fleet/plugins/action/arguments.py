# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validate the variables of several roles at once, and refuse misspelt settings. Runs here only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import (
    COLLECTION,
    OTHER_VARIABLES,
    find_misspelt_settings,
    format_misspelt_settings,
    read_known_variables,
)


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        self.refuse_misspelt_settings(task_vars)
        for role in options["roles"]:
            spec = self.load_role_options(role)
            role_variables = self._templar.template(
                {name: task_vars[name] for name in spec if name in task_vars}
            )
            checked = ArgumentSpecValidator(spec).validate(role_variables, validate_role_argument_spec=True)
            if checked.error_messages:
                raise AnsibleActionFail(f"role {role}: {'; '.join(checked.error_messages)}")
        return {}

    def refuse_misspelt_settings(self, task_vars: dict[str, Any]) -> None:
        """Raise AnsibleActionFail for variables that nothing reads and that resemble a setting."""
        misspelt = find_misspelt_settings(task_vars, read_known_variables())
        if not misspelt:
            return
        exempt = {*self.read_other_variables(task_vars), *self.list_result_names(task_vars)}
        written = {name: setting for name, setting in misspelt.items() if name not in exempt}
        if written:
            raise AnsibleActionFail(format_misspelt_settings(written))

    def read_other_variables(self, task_vars: dict[str, Any]) -> list[str]:
        """Return the names that a person declares as variables of other roles."""
        names = self._templar.template(task_vars.get(OTHER_VARIABLES) or [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise AnsibleActionFail(f"{OTHER_VARIABLES} must be a list of names of variables")
        return names

    def list_result_names(self, task_vars: dict[str, Any]) -> Iterator[str]:
        """Yield the names of registered results and included variables, which no person wrote as settings."""
        manager = self._task.get_variable_manager()
        extra_vars = getattr(manager, "extra_vars", {})
        for cache in ("_nonpersistent_fact_cache", "_vars_cache"):
            values = getattr(manager, cache, {}).get(task_vars.get("inventory_hostname")) or {}
            yield from (name for name in values if name not in extra_vars)

    def load_role_options(self, role: str) -> dict[str, Any]:
        """Return the documented options of a role."""
        folders = [
            COLLECTION / "roles",
            Path(self._loader.get_basedir()) / "roles",
            *map(Path, constants.DEFAULT_ROLES_PATH or ()),
        ]
        file = next(
            (f for f in (folder / role / "meta/argument_specs.yml" for folder in folders) if f.is_file()),
            None,
        )
        if file is None:
            raise AnsibleActionFail(
                f"role {role} has no meta/argument_specs.yml in {', '.join(map(str, folders))}"
            )
        options: dict[str, Any] = self._loader.load_from_file(str(file))["argument_specs"]["main"].get(
            "options", {}
        )
        return options

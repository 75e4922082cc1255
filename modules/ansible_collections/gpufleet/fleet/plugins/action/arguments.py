# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Validate the variables of several roles at once, each against its own argument specification. Runs here only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.adapter import ControllerAction

COLLECTION = Path(__file__).resolve().parents[2]


class ActionModule(ControllerAction):
    def compute_result(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        for role in options["roles"]:
            spec = self.load_role_options(role)
            role_variables = self._templar.template(
                {name: task_vars[name] for name in spec if name in task_vars}
            )
            checked = ArgumentSpecValidator(spec).validate(role_variables, validate_role_argument_spec=True)
            if checked.error_messages:
                raise AnsibleActionFail(f"role {role}: {'; '.join(checked.error_messages)}")
        return {}

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

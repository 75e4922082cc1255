# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""An action that only asks gpufleet on the controller: nothing runs on the host, nothing changes there."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase

from gpufleet.errors import InputError


class ControllerAction(ActionBase):
    """A subclass says its ``ARGUMENTS`` and gives ``answer(asked, task_vars)``, which returns the result's own keys.

    An InputError fails the task with its one line.
    """

    TRANSFERS_FILES = False
    _requires_connection = False
    ARGUMENTS: ClassVar[dict[str, Any]] = {}
    REFUSED = ""  # what stands before the line of an InputError

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _, asked = self.validate_argument_spec(argument_spec=self.ARGUMENTS)
        try:
            told = self.answer(asked, task_vars or {})
        except InputError as wrong:
            return {**result, "failed": True, "msg": f"{self.REFUSED}{wrong}"}
        return {**result, "changed": False, **told}

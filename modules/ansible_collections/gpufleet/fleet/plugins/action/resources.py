# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run the module of this name; on hosts with dnf, Ansible's own dnf module changes the packages first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.fleet.plugins.module_utils import versionlock
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import dnf_steps
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_fact_injection

MODULE = "gpufleet.fleet.resources"
QUERY = versionlock.INSTALLED_FORMAT


class DnfFailure(Exception):
    """The result of a module that failed."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        super().__init__(dnf_steps.explain_dnf_failure(result))


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        refuse_fact_injection()
        self._task_vars = task_vars
        arguments = dict(self._task.args)
        result = self._run_module(MODULE, arguments, wrap_async=bool(self._task.async_val))
        if result.pop("package_manager", "") != "dnf":
            return result
        options = arguments.pop("packages")
        try:
            changed, names = self._apply_dnf_packages(options)
        except DnfFailure as failure:
            names = [*(options.get("present") or []), *(options.get("absent") or [])]
            return {"failed": True, "msg": f"cannot install {', '.join(names)}: {failure}"}
        result = self._run_module(MODULE, {**arguments, "packages_of_dnf": names})
        result.pop("package_manager", None)
        return {**result, "changed": changed or result.get("changed", False)}

    def _run_module(self, name: str, arguments: dict[str, Any], wrap_async: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=self._task_vars, wrap_async=wrap_async
        )
        return answer

    def _run_step(self, step: dnf_steps.Step | None, check_mode: bool | None = None) -> dict[str, Any]:
        """Run a builtin module; raise DnfFailure with its message if it fails."""
        if step is None:
            return {}
        own_mode = self._task.check_mode
        self._task.check_mode = own_mode if check_mode is None else check_mode
        try:
            result = self._run_module(step.module, step.arguments)
        finally:
            self._task.check_mode = own_mode
        if result.get("failed"):
            raise DnfFailure(result)
        return result

    def _apply_dnf_packages(self, options: Mapping[str, Any]) -> tuple[bool, list[str]]:
        """Install, remove, lock and unlock; return whether anything changed, and the names of changed packages."""
        held, unheld = options.get("held") or [], options.get("unheld") or []
        both = {*held} & {*unheld} or _names(options) & {*(options.get("absent") or [])}
        if both:
            raise AnsibleActionFail(f"{min(both)} is in two lists that exclude each other")
        changed = self._install_versionlock() if held else False
        locks = self._read_locks() if held or unheld else {}
        to_lift = versionlock.find_packages_of_same_version(unheld, locks)
        own_locks = versionlock.find_packages_of_same_version(held, locks)
        if own_locks and self._needs_change(options):
            to_lift |= own_locks
        to_lock: set[str] = set()
        try:
            self._change_locks("delete", to_lift)
            steps = [dnf_steps.install_step(options), dnf_steps.remove_step(options)]
            results = [self._run_step(step) for step in steps]
        finally:
            if held:
                installed = versionlock.parse_installed_versions(
                    self._read_lines("rpm", "-qa", "--qf", QUERY)
                )
                same_version_names = versionlock.find_packages_of_same_version(held, installed)
                to_lock = same_version_names - ({*locks} - to_lift)
                self._change_locks("add", to_lock)
        names = dnf_steps.parse_changed_packages(
            line for result in results for line in result.get("results") or []
        )
        is_changed = any(result.get("changed") for result in results)
        return changed or is_changed or bool(to_lift or to_lock), names

    def _install_versionlock(self) -> bool:
        return bool(self._run_step(dnf_steps.VERSIONLOCK_STEP).get("changed"))

    def _needs_change(self, options: Mapping[str, Any]) -> bool:
        """True if dnf would change something without version locks."""
        previews = []
        for step in (dnf_steps.install_step(options), dnf_steps.remove_step(options)):
            if step:
                without_locks = {**step.arguments, "disable_plugin": ["versionlock"]}
                previews.append(self._run_step(dnf_steps.Step(step.module, without_locks), check_mode=True))
        return any(preview.get("changed") for preview in previews)

    def _read_locks(self) -> dict[str, str]:
        """Return the locks; none if the plugin is not installed, which only check mode meets."""
        try:
            return versionlock.parse_locks(self._read_lines("dnf", "-q", "versionlock", "list"))
        except DnfFailure:
            if self._task.check_mode:
                return {}
            raise

    def _read_lines(self, *argv: str) -> list[str]:
        """Return the output of a command that changes nothing, also in check mode."""
        lines: list[str] = (
            self._run_step(dnf_steps.run_step(*argv), check_mode=False).get("stdout_lines") or []
        )
        return lines

    def _change_locks(self, change: str, names: set[str]) -> None:
        if names:
            self._run_step(dnf_steps.run_step("dnf", "-q", "versionlock", change, *sorted(names)))


def _names(options: Mapping[str, Any]) -> set[str]:
    return {spec.partition("=")[0] for spec in options.get("present") or []}

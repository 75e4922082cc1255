# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Add package repositories with verified keys; keys can come from a folder on the controller. See the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.fleet.plugins.module_utils import signing_key
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import dnf_steps
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_fact_injection

MODULE = "gpufleet.fleet.repositories"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        refuse_fact_injection()
        arguments = dict(self._task.args)
        if arguments.get("key_folder"):
            arguments["repositories"] = self._with_key_contents(
                arguments["repositories"], arguments["key_folder"]
            )
        result = self._run_module(MODULE, arguments, task_vars)
        if result.get("failed") or result.get("package_manager") != "dnf":
            return result
        for step in self._list_dnf_steps(arguments, result):
            done = self._run_module(step.module, step.arguments, task_vars)
            if done.get("failed"):
                return {**result, "failed": True, "msg": _explain_failed_step(step, done)}
            result["changed"] = result["changed"] or done.get("changed", False)
        return result

    def _list_dnf_steps(self, arguments: dict[str, Any], result: dict[str, Any]) -> list[dnf_steps.Step]:
        """Return prerequisites, repositories and streams, in this order: packages of a stream need all three."""
        repositories = [_repository_step(entry, result) for entry in arguments["repositories"]]
        if "dnf" not in result:
            return repositories
        host = dnf_steps.DnfHost(**result["dnf"])
        return [
            *dnf_steps.list_prerequisite_steps(arguments.get("prerequisites") or [], host),
            *repositories,
            *dnf_steps.list_stream_steps(arguments.get("streams") or [], host),
        ]

    def _run_module(
        self, name: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=task_vars
        )
        return answer

    def _with_key_contents(self, repositories: list[dict[str, Any]], folder: str) -> list[dict[str, Any]]:
        """Return the repositories with the contents of their keys, each from the file with its fingerprint."""
        try:
            key_files = _read_key_folder(Path(folder).expanduser())
            return [
                {
                    **repository,
                    "key": {**repository["key"], "content": _find_key(repository, key_files, folder)},
                }
                for repository in repositories
            ]
        except HostError as error:
            raise AnsibleActionFail(error.msg) from None


def _repository_step(repository: dict[str, Any], result: dict[str, Any]) -> dnf_steps.Step:
    name = repository["name"]
    arguments = {
        "name": name,
        "description": name,
        "baseurl": repository["uri"],
        "gpgkey": f"file://{result['key_paths'][name]}",
        "gpgcheck": repository.get("signs_packages", True),
        "repo_gpgcheck": repository.get("signs_metadata", False),
    }
    if repository.get("priority") is not None:
        arguments["priority"] = repository["priority"]
    return dnf_steps.Step("ansible.builtin.yum_repository", arguments)


def _explain_failed_step(step: dnf_steps.Step, result: dict[str, Any]) -> str:
    return f"{' '.join(step.arguments.get('argv') or [step.module])}: {dnf_steps.explain_dnf_failure(result)}"


def _read_key_folder(folder: Path) -> dict[str, bytes]:
    """Return each fingerprint in the folder's files, and the file that contains it; other files are passed over."""
    if not folder.is_dir():
        raise HostError(f"{folder}: the folder of signing keys is not on the controller")
    key_files: dict[str, bytes] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        data = path.read_bytes()
        try:
            fingerprints = signing_key.list_key_fingerprints(data, str(path))
        except HostError:
            continue
        key_files.update(dict.fromkeys(fingerprints, data))
    return key_files


def _find_key(repository: dict[str, Any], key_files: dict[str, bytes], folder: str) -> str:
    """Return the expected keys as one armoured text."""
    key = repository["key"]
    expected = [signing_key.normalize_fingerprint(text) for text in key["fingerprints"]]
    found = [key_files[fingerprint] for fingerprint in expected if fingerprint in key_files]
    if not found:
        present = ", ".join(key_files) or "no key"
        raise HostError(
            f"repository {repository['name']}: no file in {folder} has the signing key {' or '.join(expected)}"
            f" (present: {present}); save {key.get('url') or 'it'} there"
        )
    return signing_key.select_signing_keys(found[0], expected, folder)

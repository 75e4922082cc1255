# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Functions that the filters of several roles share: output of scripts, files, packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry

HEADER = "# Written by gpufleet; changes made here are overwritten.\n"
APT_HEADER = "// Written by gpufleet; changes made here are overwritten."
SYSTEM_UNITS = "/etc/systemd/system"


class PlannedPackage(TypedDict):
    """A package of a driver plan; without a version the newest is installed."""

    name: str
    version: NotRequired[str | None]


def managed_file_text(lines: Iterable[str]) -> str:
    """Return the text of a file with these lines below gpufleet's header."""
    return HEADER + "".join(f"{line}\n" for line in lines)


def unit_dropin_files(unit_name: str, lines: Iterable[str]) -> list[FileEntry]:
    """Return the folder and the file that change a unit of a package."""
    folder = f"{SYSTEM_UNITS}/{unit_name}.d"
    return [
        {"path": folder, "state": "directory"},
        {"path": f"{folder}/gpufleet.conf", "content": managed_file_text(lines)},
    ]


def memlock_limits_text(users: Iterable[str]) -> str:
    """Return the file of limits.conf(5) that lets these users lock any amount of memory."""
    return managed_file_text(f"{user} - memlock unlimited" for user in users)


def shell_script_command(script_text: str, name: str, *arguments: str | list[str]) -> list[str]:
    """Return the command that runs the text of a shell script; ``name`` is its $0, a list is several arguments."""
    flat = [
        word for argument in arguments for word in ([argument] if isinstance(argument, str) else argument)
    ]
    return ["sh", "-c", script_text, name, *flat]


def parse_script_values(script_result: Mapping[str, Any]) -> dict[str, str]:
    """Return the ``name=value`` lines that a role's script printed; empty where it did not run."""
    return dict(line.split("=", 1) for line in script_result.get("stdout_lines") or [])


def select_role_topics(topics: list[str], *, run_tags: list[str], skip_tags: list[str]) -> list[str]:
    """Return the topics that ``--tags`` and ``--skip-tags`` leave; one task does all topics of a role."""
    return [topic for topic in topics if ("all" in run_tags or topic in run_tags) and topic not in skip_tags]


def format_package_spec(package: PlannedPackage | str) -> str:
    """Return NAME or NAME=VERSION."""
    if isinstance(package, str):
        return package
    version = package.get("version")
    return f"{package['name']}={version}" if version else package["name"]


def format_package_specs(packages: Iterable[PlannedPackage | str]) -> list[str]:
    """Return NAME or NAME=VERSION of every package, in order."""
    return [format_package_spec(package) for package in packages]


def read_not_applied_reasons(resources_result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task of gpufleet.fleet.resources could not apply; empty where it did not run."""
    return dict(resources_result.get("not_applied") or {})


def merge_not_applied_reasons(task_results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several tasks of a role could not apply; of two reasons for one thing the later counts."""
    return {
        key: reason for result in task_results for key, reason in read_not_applied_reasons(result).items()
    }


def not_applied_text(reasons_of_roles: Iterable[Mapping[str, Any]]) -> str:
    """Return what several roles could not apply, in one line; empty if they applied everything."""
    lines = [f"{key}: {reason}" for reasons in reasons_of_roles for key, reason in reasons.items()]
    return f"not applied: {'; '.join(lines)}" if lines else ""

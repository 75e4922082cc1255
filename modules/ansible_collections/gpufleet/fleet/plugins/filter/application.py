# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where compose and quadlet files go, the services that run them, and what keeps them from starting. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, TypedDict

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    SYSTEM_UNITS,
    parse_script_values,
    read_not_applied_reasons,
    shell_script_command,
    unit_dropin_files,
)

# Folders of their own, so that what the template no longer names can be told from the operator's own files.
QUADLETS = "/etc/containers/systemd/gpufleet"
COMPOSE = "/etc/gpufleet/compose"
COMPOSE_UNIT = "gpufleet-compose@.service"
TARGET = "gpufleet-application.target"
SECRETS = "/etc/gpufleet/secrets"
QUADLET_SUFFIXES = (".container", ".pod", ".network", ".volume")
COMPOSE_SUFFIX = ".yaml"
SECRET_FILE = re.compile(rf"{SECRETS}/([\w.-]+)")
STORED_SECRET = re.compile(r"^\s*Secret\s*=\s*([^,\s]+)", re.MULTILINE)
COMMENT = re.compile(r"^\s*[#;].*$", re.MULTILINE)
MISSING_PROGRAM = {
    "quadlet": "podman with quadlets is not installed: docs/containers.md, Engines by system",
    "compose": "docker with its compose plugin is not installed: docs/containers.md, Engines by system",
}
INSTALLED_ONLY = "installed and not started: a rehearsed host runs no containers"


class ContainerFile(TypedDict):
    """A file that a template names: a quadlet under its own name, or NAME.yaml for the compose project NAME."""

    name: str
    content: str


class InstalledApplication(TypedDict):
    """What the role's look.sh found on the node; ``programs`` are those that check and run the files, by kind."""

    programs: dict[str, str]
    files: list[str]
    secrets: list[str]


def parse_installed_application(script_result: Mapping[str, Any]) -> InstalledApplication:
    """Return what look.sh printed as ``name=value`` lines; ``file`` and ``secret`` may occur several times."""
    answers = parse_script_values(script_result)
    pairs = [line.split("=", 1) for line in script_result.get("stdout_lines") or []]
    return {
        "programs": {kind: answers[kind] for kind in ("quadlet", "compose") if kind in answers},
        "files": [value for name, value in pairs if name == "file"],
        "secrets": [value for name, value in pairs if name == "secret"],
    }


def _kind(name: str) -> str:
    suffix = PurePosixPath(name).suffix
    if suffix not in (*QUADLET_SUFFIXES, COMPOSE_SUFFIX) or "/" in name:
        raise AnsibleFilterError(
            f"{name!r} is not the name of a container file; give NAME{COMPOSE_SUFFIX} for a compose file, or a"
            f" quadlet: NAME{', NAME'.join(QUADLET_SUFFIXES)}"
        )
    return "compose" if suffix == COMPOSE_SUFFIX else "quadlet"


def _path(name: str) -> str:
    return (
        f"{COMPOSE}/{name[: -len(COMPOSE_SUFFIX)]}/compose.yaml"
        if _kind(name) == "compose"
        else f"{QUADLETS}/{name}"
    )


def _service(path: str) -> str:
    """Return the service of an installed file; empty for a pod, network or volume, which its containers start."""
    file = PurePosixPath(path)
    if path.startswith(f"{COMPOSE}/"):
        return COMPOSE_UNIT.replace("@", f"@{file.parent.name}")
    return {".container": f"{file.stem}.service", ".service": file.name}.get(file.suffix, "")


def application_files(
    files: list[ContainerFile],
    *,
    volumes: list[str],
    unit: str,
    target: str,
    verify: str,
    programs: Mapping[str, str],
) -> list[FileEntry]:
    """Return the files as they are, each checked by the program that runs it, and their units."""
    quadlets = [file for file in files if _kind(file["name"]) == "quadlet"]
    # A quadlet may name others, so the generator reads all of them at once.
    texts = [text for file in quadlets for text in (file["name"], file["content"])]
    entries: list[FileEntry] = [{"path": f"{SYSTEM_UNITS}/{TARGET}", "content": target}] if files else []
    if quadlets:
        entries.append({"path": QUADLETS, "state": "directory"})
    if len(quadlets) < len(files):
        entries.append({"path": f"{SYSTEM_UNITS}/{COMPOSE_UNIT}", "content": unit})
    for file in files:
        kind, path = _kind(file["name"]), _path(file["name"])
        if kind == "compose":
            entries.append({"path": str(PurePosixPath(path).parent), "state": "directory"})
        entry: FileEntry = {"path": path, "content": file["content"]}
        if kind in programs:
            arguments = texts if kind == "quadlet" else [str(PurePosixPath(path).parent), "{}"]
            entry["validate"] = shell_script_command(verify, "verify", programs[kind], kind, arguments)
        entries.append(entry)
        if service := _service(path):
            entries += unit_dropin_files(service, _dropin_lines(volumes))
    return entries


def _dropin_lines(volumes: list[str]) -> list[str]:
    """Return what a service of the application has besides the user's own lines.

    ``systemctl stop`` of the target stops it, and returns once it has. Volumes are made at every start: scratch of a
    cloud machine comes back empty after a stop.
    """
    lines = ["[Unit]", *(f"{key}={TARGET}" for key in ("Wants", "PartOf", "After"))]
    if volumes:
        folders = " ".join(volumes)
        lines += [f"RequiresMountsFor={folders}", "[Service]", f"ExecStartPre=/bin/mkdir -p {folders}"]
    return lines


def application_unit_entries(files: list[ContainerFile], *, start: bool) -> list[UnitEntry]:
    """Return the services. The [Install] section of a quadlet decides whether it starts at boot."""
    paths = [_path(file["name"]) for file in files]
    shared = [path for path in paths if not _service(path)]
    entries = []
    for path in paths:
        service = _service(path)
        if not service:
            continue
        is_compose = path.startswith(COMPOSE)
        unit_files = [f"{SYSTEM_UNITS}/{COMPOSE_UNIT}"] if is_compose else shared
        entry: UnitEntry = {
            "name": service,
            "restart_on": [path, f"{SYSTEM_UNITS}/{service}.d/", *unit_files],
        }
        if is_compose:
            entry["enabled"] = start
        if start:
            entry["state"] = "started"
        entries.append(entry)
    return entries


def application_secret_files(secrets: Mapping[str, Any]) -> list[FileEntry]:
    """Return the folder of secrets and one file for each secret that the operator gives."""
    folders: list[FileEntry] = [
        {"path": str(PurePosixPath(SECRETS).parent), "state": "directory"},
        {"path": SECRETS, "state": "directory", "mode": "0700"},
    ]
    return folders + [
        {"path": f"{SECRETS}/{name}", "content": str(value), "mode": "0400"}
        for name, value in secrets.items()
    ]


def application_removals(files: list[ContainerFile], *, installed: list[str]) -> dict[str, list[Any]]:
    """Return what stops and removes the files that the template no longer names, units of older releases included."""
    current = {_path(file["name"]) for file in files}
    obsolete = [path for path in dict.fromkeys(installed) if path not in current]
    services = [service for path in obsolete if (service := _service(path))]
    dropins = [f"{SYSTEM_UNITS}/{service}.d/gpufleet.conf" for service in services]
    return {
        "stops": [{"name": service, "enabled": False, "state": "stopped"} for service in services],
        "files": [{"path": path, "state": "absent"} for path in [*obsolete, *dropins]],
        "reloads": [{"name": service} for service in services],
    }


def application_obstacles(
    files: list[ContainerFile], *, installed: InstalledApplication, secrets: Mapping[str, Any]
) -> list[str]:
    """Return why the application cannot start: programs and secrets that are neither on the node nor given."""
    available = {*installed["secrets"], *(f"{SECRETS}/{name}" for name in secrets)}
    kinds = dict.fromkeys(_kind(file["name"]) for file in files)
    absent = [MISSING_PROGRAM[kind] for kind in kinds if kind not in installed["programs"]]
    required = dict.fromkeys(name for file in files for name in _required_secrets(file))
    missing = [name for name in required if name not in available]
    return absent + [f"{name} is not on the node: docs/containers.md, Secrets" for name in missing]


def _required_secrets(file: ContainerFile) -> list[str]:
    text = COMMENT.sub("", file["content"])
    names = [f"{SECRETS}/{name}" for name in SECRET_FILE.findall(text)]
    stored = STORED_SECRET.findall(text) if _kind(file["name"]) == "quadlet" else []
    return names + [f"podman secret {name}" for name in stored]


def application_not_applied_reasons(
    files: list[ContainerFile], *, applied: Mapping[str, Any], start: bool, obstacles: list[str]
) -> dict[str, Any]:
    """Return what the host does not have of the application, each with its reason."""
    reasons = read_not_applied_reasons(applied)
    if not start and files:
        services = [entry["name"] for entry in application_unit_entries(files, start=start)]
        reasons["containers"] = dict.fromkeys(services, INSTALLED_ONLY)
        if obstacles:
            reasons["application"] = obstacles
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "application_installed": parse_installed_application,
            "application_files": application_files,
            "application_units": application_unit_entries,
            "application_secret_files": application_secret_files,
            "application_removals": application_removals,
            "application_obstacles": application_obstacles,
            "application_not_applied": application_not_applied_reasons,
        }

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a container engine can do, how it is set and what it could not have. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NotRequired, TypedDict

from ansible.errors import AnsibleFilterError
from ansible.module_utils.compat.version import LooseVersion

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    managed_file_text,
    read_not_applied_reasons,
)

ABILITIES = ("quadlet", "cdi", "cdi_additional_gids")
UNKNOWN_VERSION = "0"
DOCKER_HUB = "docker.io"
LINGER = "/var/lib/systemd/linger"
PODMAN_STORE = "/var/lib/containers/storage"
# Podman's files are TOML; where the host's Python can read that (3.11 and later), it must.
TOML_CHECK = """\
import sys
try:
    import tomllib
except ImportError:
    sys.exit()
try:
    tomllib.load(open(sys.argv[1], "rb"))
except ValueError as wrong:
    sys.exit(f"not TOML: {wrong}")
"""
DAEMON_CHECK = (
    "if dockerd --help 2>/dev/null | grep -q -- --validate; then"
    ' exec dockerd --validate --config-file="$1"; fi'
)
CHECKED_FILE = "{}"  # gpufleet.fleet.resources puts the path of the new file here


class EngineAbility(TypedDict):
    """From which version on an engine has an ability, and how we know."""

    since: str
    source: str


class EngineSource(TypedDict):
    """The packages of an engine; a vendor's also have repositories, in the form of gpufleet.fleet.repositories."""

    version: str | None
    packages: list[str]
    repositories: NotRequired[list[dict[str, Any]]]
    superseded_files: NotRequired[list[str]]


class SystemEngineSources(TypedDict):
    """The engines of an operating system; see systems.yml."""

    container_engine_podman: EngineSource
    container_engine_docker: dict[str, EngineSource]


class RegistryMirror(TypedDict):
    """An entry of ``container_engine_mirrors``."""

    registry: str
    mirror: str
    insecure: NotRequired[bool]


class RootlessUser(TypedDict):
    """An entry of ``container_engine_rootless_users``."""

    name: str
    first_id: NotRequired[int]


class ContainerEngineSettings(TypedDict):
    """The role's settings by their names without the prefix."""

    data_root: str
    storage_driver: str
    log_max_mib: int
    log_max_files: int
    search_registries: list[str]
    mirrors: list[RegistryMirror]
    rootless_users: list[RootlessUser]
    unlimited_memlock: bool
    live_restore: bool
    docker_settings: Mapping[str, Any]


def default_container_engine(software: Mapping[str, Any], *, plan: Mapping[str, Any]) -> str:
    """Return the engine that a node's template names; without one podman if the driver plan has cards."""
    has_cards = plan.get("vendor", "none") != "none"
    return str(software.get("container_engine", "podman" if has_cards else "none"))


def container_engine_source(
    engines: SystemEngineSources,
    *,
    kind: str,
    origin: str,
    system: str,
    repositories: Sequence[Mapping[str, Any]],
) -> EngineSource:
    """Return where an engine comes from on a system; raise AnsibleFilterError if it has none of this origin."""
    if kind == "podman":
        return engines["container_engine_podman"]
    sources = engines["container_engine_docker"]
    if origin not in sources:
        raise AnsibleFilterError(f"{system} has no Docker of its own; set container_engine_origin to vendor")
    source = sources[origin]
    if origin == "vendor" and not source.get("repositories") and not repositories:
        raise AnsibleFilterError(
            f"Docker documents no repository for {system}; set container_engine_repositories to one that has"
            " docker-ce, or container_engine_origin to distribution"
        )
    return source


def superseded_files(vendor_source: EngineSource) -> list[FileEntry]:
    """Return the removal of files that named Docker's repository before."""
    return [{"path": path, "state": "absent"} for path in vendor_source.get("superseded_files", [])]


def podman_config_files(settings: ContainerEngineSettings) -> list[FileEntry]:
    """Return podman's settings: containers, storage, registries and users without root."""
    folders = ("/etc/containers/containers.conf.d", "/etc/containers/registries.conf.d")
    check = ["python3", "-I", "-c", TOML_CHECK, CHECKED_FILE]
    return [
        {"path": folders[0], "state": "directory"},
        {"path": f"{folders[0]}/50-gpufleet.conf", "content": _containers_conf(settings), "validate": check},
        {"path": "/etc/containers/storage.conf", "content": _storage_conf(settings), "validate": check},
        {"path": folders[1], "state": "directory"},
        {"path": f"{folders[1]}/50-gpufleet.conf", "content": _registries_conf(settings), "validate": check},
        *rootless_user_files(settings["rootless_users"]),
    ]


def _containers_conf(settings: ContainerEngineSettings) -> str:
    limits = ['default_ulimits = ["memlock=-1:-1"]'] if settings["unlimited_memlock"] else []
    size = settings["log_max_mib"] * 1024 * 1024
    return managed_file_text(["[containers]", 'log_driver = "k8s-file"', f"log_size_max = {size}", *limits])


def _storage_conf(settings: ContainerEngineSettings) -> str:
    return managed_file_text(
        [
            "[storage]",
            f'driver = "{settings["storage_driver"]}"',
            'runroot = "/run/containers/storage"',
            f'graphroot = "{settings["data_root"] or PODMAN_STORE}"',
        ]
    )


def _registries_conf(settings: ContainerEngineSettings) -> str:
    def registry_name(mirror: RegistryMirror) -> str:
        return mirror["registry"].lower()

    lines = [f"unqualified-search-registries = {json.dumps(list(settings['search_registries']))}"]
    for __, group in groupby(sorted(settings["mirrors"], key=registry_name), key=registry_name):
        mirrors = list(group)
        registry = mirrors[0]["registry"]
        lines += ["", "[[registry]]", f'prefix = "{registry}"', f'location = "{registry}"']
        for mirror in mirrors:
            insecure = json.dumps(mirror.get("insecure", False))
            lines += ["", "[[registry.mirror]]", f'location = "{mirror["mirror"]}"', f"insecure = {insecure}"]
    return managed_file_text(lines)


def docker_config_files(settings: ContainerEngineSettings) -> list[FileEntry]:
    """Return Docker's settings and the users without root.

    systemd-nspawn keeps from dockerd what it needs: without the condition the unit would fail there at every start.
    """
    condition = managed_file_text(["[Unit]", "ConditionVirtualization=!systemd-nspawn"])
    return [
        {"path": "/etc/docker", "state": "directory"},
        {
            "path": "/etc/docker/daemon.json",
            "state": "json",
            "content": json.dumps(docker_daemon_settings(settings)),
            "validate": ["sh", "-c", DAEMON_CHECK, "validate", CHECKED_FILE],
        },
        {"path": "/etc/systemd/system/docker.service.d", "state": "directory"},
        {"path": "/etc/systemd/system/docker.service.d/50-gpufleet.conf", "content": condition},
        *rootless_user_files(settings["rootless_users"]),
    ]


def container_engine_abilities(
    script_values: Mapping[str, str], *, kind: str, version: str, known: Mapping[str, EngineAbility]
) -> dict[str, Any]:
    """Return which of our abilities this version of the engine has, and whether the engine itself was asked."""
    installed = LooseVersion(version)
    has = {name: name in known and installed >= LooseVersion(known[name]["since"]) for name in ABILITIES}
    number = None if version == UNKNOWN_VERSION else version
    return {"engine": kind, "version": number, "asked": "version" in script_values, **has}


def docker_daemon_settings(settings: ContainerEngineSettings) -> dict[str, Any]:
    """Return what is merged into daemon.json: a key that is None is taken out, keys of others stay.

    dockerd refuses to start over a mirror with a path, so those are left out (and reported).
    """
    usable = [mirror for mirror in settings["mirrors"] if is_usable_docker_mirror(mirror)]
    insecure = [mirror["mirror"] for mirror in usable if mirror.get("insecure")]
    urls = [f"{'http' if mirror.get('insecure') else 'https'}://{mirror['mirror']}" for mirror in usable]
    unlimited = {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}}
    log_options = {"max-size": f"{settings['log_max_mib']}m", "max-file": str(settings["log_max_files"])}
    return {
        "data-root": settings["data_root"] or None,
        "log-driver": "json-file",
        "log-opts": log_options,
        "live-restore": settings["live_restore"],
        "registry-mirrors": urls or None,
        "insecure-registries": insecure or None,
        "default-ulimits": unlimited if settings["unlimited_memlock"] else None,
        **dict(settings["docker_settings"].items()),
    }


def is_usable_docker_mirror(mirror: RegistryMirror) -> bool:
    """True if Docker can use a mirror: of docker.io only, and without a path."""
    return mirror["registry"] == DOCKER_HUB and "/" not in mirror["mirror"]


def rootless_user_files(users: list[RootlessUser]) -> list[FileEntry]:
    """Return the files that let users run containers without root: lingering, and a range of ids each.

    An empty file is all that ``loginctl enable-linger`` makes.
    """
    if not users:
        return []
    files: list[FileEntry] = [{"path": LINGER, "state": "directory"}]
    files += [{"path": f"{LINGER}/{user['name']}", "content": ""} for user in users]
    ranged = [user for user in users if "first_id" in user]
    lines = [f"{user['name']}:{user['first_id']}:65536" for user in ranged]
    rules = [f"^{re.escape(user['name'])}:" for user in ranged]
    for path in ("/etc/subuid", "/etc/subgid") if ranged else ():
        files.append({"path": path, "state": "lines", "lines": lines, "remove": rules})
    return files


def container_engine_not_applied_reasons(
    script_values: Mapping[str, str],
    *,
    applied: Mapping[str, Any],
    kind: str,
    version: str,
    known: Mapping[str, EngineAbility],
    storage_driver: str,
    mirrors: list[RegistryMirror],
) -> dict[str, Any]:
    """Return what the host cannot have, each with its reason."""
    problems = read_not_applied_reasons(applied)
    if script_values.get("installed") == "yes":
        problems.update(_engine_problems(script_values, kind, version, known, storage_driver))
    for mirror in mirrors if kind == "docker" else ():
        if not is_usable_docker_mirror(mirror):
            problems[f"mirror {mirror['mirror']}"] = (
                "Docker's mirrors are hosts without a path, of docker.io only"
            )
    return problems


def _engine_problems(
    answers: Mapping[str, str],
    kind: str,
    version: str,
    known: Mapping[str, EngineAbility],
    storage_driver: str,
) -> dict[str, str]:
    has = container_engine_abilities(answers, kind=kind, version=version, known=known)
    problems = {}
    if kind == "podman" and not has["quadlet"]:
        since = known["quadlet"]["since"]
        problems["quadlet"] = (
            f"podman {version} has no quadlets ({since} and later do); an application needs docker and compose files"
        )
    if not has["cdi"]:
        problems["cdi"] = f"{kind} {version} does not know CDI ({known['cdi']['since']} and later do)"
    if message := answers.get("message"):
        problems["engine"] = message
    if not answers.get("store", f"{storage_driver} ").startswith(f"{storage_driver} "):
        problems["store"] = answers["store"]
    rootless = {name: state for name, state in answers.items() if name.startswith("rootless_")}
    return problems | {name: state for name, state in rootless.items() if state != "ready"}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "default_engine": default_container_engine,
            "engine_source": container_engine_source,
            "engine_superseded_files": superseded_files,
            "podman_files": podman_config_files,
            "docker_files": docker_config_files,
            "engine_abilities": container_engine_abilities,
            "engine_not_applied": container_engine_not_applied_reasons,
        }

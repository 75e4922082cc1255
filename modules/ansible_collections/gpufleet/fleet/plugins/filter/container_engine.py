# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a container engine can do, how it is set and what it could not have. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible.module_utils.compat.version import LooseVersion

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import earlier_reasons

ABILITIES = ("quadlet", "cdi", "cdi_additional_gids")
UNKNOWN_VERSION = "0"
DOCKER_HUB = "docker.io"
LINGER = "/var/lib/systemd/linger"


class Ability(TypedDict):
    """From which version on an engine has an ability, and how we know."""

    since: str
    source: str


def abilities(
    answers: Mapping[str, str], *, kind: str, version: str, known: Mapping[str, Ability]
) -> dict[str, Any]:
    """Return which of our abilities this version of the engine has, and whether the engine itself was asked."""
    installed = LooseVersion(version)
    has = {name: name in known and installed >= LooseVersion(known[name]["since"]) for name in ABILITIES}
    number = None if version == UNKNOWN_VERSION else version
    return {"engine": kind, "version": number, "asked": "version" in answers, **has}


def docker_settings(
    docker_options: Mapping[str, Any],
    *,
    mirrors: list[dict[str, Any]],
    data_root: str,
    log_max_mib: int,
    log_max_files: int,
    live_restore: bool,
    unlimited_memlock: bool,
) -> dict[str, Any]:
    """Return what is merged into daemon.json: a key that is None is taken out, keys of others stay.

    dockerd refuses to start over a mirror with a path, so those are left out (and reported).
    """
    usable = [entry for entry in mirrors if is_docker_mirror(entry)]
    insecure = [entry["mirror"] for entry in usable if entry.get("insecure")]
    urls = [f"{'http' if entry.get('insecure') else 'https'}://{entry['mirror']}" for entry in usable]
    unlimited = {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}}
    return {
        "data-root": data_root or None,
        "log-driver": "json-file",
        "log-opts": {"max-size": f"{log_max_mib}m", "max-file": str(log_max_files)},
        "live-restore": live_restore,
        "registry-mirrors": urls or None,
        "insecure-registries": insecure or None,
        "default-ulimits": unlimited if unlimited_memlock else None,
        **docker_options,
    }


def is_docker_mirror(entry: Mapping[str, Any]) -> bool:
    """Return whether Docker can use a mirror: of docker.io only, and without a path."""
    return entry["registry"] == DOCKER_HUB and "/" not in entry["mirror"]


def rootless_files(users: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the files that let users run containers without root: lingering, and a range of ids each."""
    if not users:
        return []
    files: list[dict[str, Any]] = [{"path": LINGER, "state": "directory"}]
    files += [{"path": f"{LINGER}/{user['name']}", "content": ""} for user in users]
    ranged = [user for user in users if "first_id" in user]
    lines = [f"{user['name']}:{user['first_id']}:65536" for user in ranged]
    rules = [f"^{re.escape(user['name'])}:" for user in ranged]
    for path in ("/etc/subuid", "/etc/subgid") if ranged else ():
        files.append({"path": path, "state": "lines", "lines": lines, "remove": rules})
    return files


def not_applied(
    answers: Mapping[str, str],
    *,
    applied: Mapping[str, Any],
    kind: str,
    version: str,
    known: Mapping[str, Ability],
    storage_driver: str,
    mirrors: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return what the host cannot have, each with its reason."""
    problems = earlier_reasons(applied)
    if answers.get("installed") == "yes":
        problems.update(_engine_problems(answers, kind, version, known, storage_driver))
    for entry in mirrors if kind == "docker" else ():
        if not is_docker_mirror(entry):
            problems[f"mirror {entry['mirror']}"] = (
                "Docker's mirrors are hosts without a path, of docker.io only"
            )
    return problems


def _engine_problems(
    answers: Mapping[str, str], kind: str, version: str, known: Mapping[str, Ability], storage_driver: str
) -> dict[str, str]:
    has = abilities(answers, kind=kind, version=version, known=known)
    problems = {}
    if kind == "podman" and not has["quadlet"]:
        since = known["quadlet"]["since"]
        problems["quadlet"] = (
            f"podman {version} has no quadlets ({since} and later do); applications run from plain units"
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
            "engine_abilities": abilities,
            "engine_not_applied": not_applied,
            "engine_rootless_files": rootless_files,
            "docker_settings": docker_settings,
        }

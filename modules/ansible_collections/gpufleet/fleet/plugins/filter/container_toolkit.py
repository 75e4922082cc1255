# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files and units of a container toolkit, and what it could not do. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import earlier_reasons

NVIDIA_FOLDER = "/etc/nvidia-container-toolkit"
NVIDIA_ENVIRONMENT = f"{NVIDIA_FOLDER}/nvidia-cdi-refresh.env"
DAEMON_JSON = "/etc/docker/daemon.json"


class Toolkit(TypedDict):
    """What a vendor's toolkit consists of; see vars/toolkits.yml."""

    packages: list[str]
    runtime: dict[str, str]


def files(
    toolkit: Toolkit,
    *,
    vendor: str,
    engine: str,
    unit: str,
    refresh: Mapping[str, str] | None,
    flag: str,
    old_reader: bool,
    default_runtime: bool,
    cdi: bool,
) -> list[dict[str, Any]]:
    """Return the files of a toolkit.

    ``refresh`` holds our own service and path unit, None where the package brings its own. ``flag`` is the line
    that an engine with an old reader of CDI specifications needs.
    """
    entries: list[dict[str, Any]] = []
    if vendor == "nvidia":
        lines = [flag] if old_reader else []
        entries += [
            {"path": NVIDIA_FOLDER, "state": "directory"},
            {"path": NVIDIA_ENVIRONMENT, "state": "lines", "lines": lines, "remove": [f"^{flag}$"]},
        ]
    if refresh:
        entries += [
            {"path": f"/etc/systemd/system/{unit}.{kind}", "content": refresh[kind]}
            for kind in ("service", "path")
        ]
    if engine == "docker":
        settings = _docker_settings(toolkit["runtime"], default_runtime=default_runtime, cdi=cdi)
        entries += [
            {"path": "/etc/docker", "state": "directory"},
            {"path": DAEMON_JSON, "state": "json", "content": json.dumps(settings)},
        ]
    return entries


def _docker_settings(runtime: Mapping[str, str], *, default_runtime: bool, cdi: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"runtimes": {runtime["name"]: {"path": runtime["path"], "args": []}}}
    if cdi:
        settings["features"] = {"cdi": True}
    if default_runtime:
        settings["default-runtime"] = runtime["name"]
    return settings


def units(toolkit: Toolkit, *, engine: str, unit: str, has_package_units: bool) -> list[dict[str, Any]]:
    """Return the units that keep the CDI specification current, and Docker's, which restarts on new settings.

    The package starts its own service; without a driver that exits at once, which is not a failure.
    """
    service: dict[str, Any] = {"name": f"{unit}.service", "enabled": True}
    if has_package_units:
        service["restart_on"] = [NVIDIA_ENVIRONMENT]
    else:
        service |= {"state": "started", "restart_on": [toolkit["packages"][0]]}
    entries = [{"name": f"{unit}.path", "enabled": True, "state": "started"}, service]
    if engine == "docker":
        entries.append({"name": "docker.service", "restart_on": [DAEMON_JSON]})
    return entries


def not_applied(
    answers: Mapping[str, str],
    *,
    applied: Mapping[str, Any],
    vendor: str,
    system: str,
    is_published: bool,
    unsupported: bool,
) -> dict[str, Any]:
    """Return what the host cannot have, each with its reason."""
    if vendor != "none" and not is_published and not unsupported:
        hint = "container_toolkit_unsupported installs it all the same"
        return {"toolkit": f"{vendor.upper()} publishes no container toolkit for {system} ({hint})"}
    problems = earlier_reasons(applied)
    if answers.get("installed") == "yes" and not answers.get("devices"):
        message = answers.get("why", answers.get("failed", "the specification lists none"))
        problems["devices"] = f"no CDI devices: {message}"
    count = answers.get("specifications", "0")
    if int(count) > 1:
        problems["specifications"] = (
            f"the same devices are in {count} files of /etc/cdi and /var/run/cdi; engines refuse all but one"
        )
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "toolkit_files": files,
            "toolkit_units": units,
            "toolkit_not_applied": not_applied,
        }

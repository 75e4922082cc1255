# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files and units of a container toolkit, and what it could not do. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible.module_utils.compat.version import LooseVersion

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons

NVIDIA_FOLDER = "/etc/nvidia-container-toolkit"
NVIDIA_ENVIRONMENT = f"{NVIDIA_FOLDER}/nvidia-cdi-refresh.env"
# The CDI reader of an old engine refuses additionalGids (CDI 0.7.0), and with it all devices.
OLD_READER_FLAG = "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes"
DAEMON_JSON = "/etc/docker/daemon.json"
NEWEST = "999"


class ContainerToolkit(TypedDict):
    """What a vendor's toolkit consists of; see vars/toolkits.yml."""

    packages: list[str]
    own_units_since: str | None
    runtime: dict[str, str]


class ContainerToolkitSettings(TypedDict):
    """The role's settings by their names without the prefix, and what the engine can do (none known: empty)."""

    vendor: str
    engine: str
    version: str
    default_runtime: bool
    abilities: Mapping[str, Any]


class ContainerToolkitPackages(TypedDict):
    """A version that is named is held, also if it is older than the installed one."""

    present: list[str]
    held: list[str]
    unheld: list[str]
    allow_downgrade: bool


class ContainerToolkitResources(TypedDict):
    packages: ContainerToolkitPackages
    files: list[FileEntry]
    units: list[UnitEntry]


def default_toolkit_vendor(software: Mapping[str, Any], *, plan: Mapping[str, Any]) -> str:
    """Return the vendor of the driver plan's cards; none if a node's template turns the toolkit off."""
    return str(plan.get("vendor", "none")) if software.get("container_toolkit", True) else "none"


def needs_container_toolkit(
    vendor: str, *, engine: str, is_published: bool, unsupported: bool, plan: Mapping[str, Any]
) -> bool:
    """True if the host has an engine and cards of a vendor whose toolkit may be installed on its system."""
    has_both = vendor != "none" and engine != "none"
    return has_both and (is_published or unsupported) and plan.get("action") != "refuse"


def container_toolkit_resources(
    toolkit: ContainerToolkit, *, settings: ContainerToolkitSettings, refresh: Mapping[str, str]
) -> ContainerToolkitResources:
    """Return a toolkit's packages, files and units.

    ``refresh`` holds our own service and path unit, for packages that bring none.
    """
    since = toolkit["own_units_since"]
    has_package_units = since is not None and LooseVersion(settings["version"] or NEWEST) >= LooseVersion(
        since
    )
    unit = "nvidia-cdi-refresh" if has_package_units else f"gpufleet-cdi-{settings['vendor']}"
    own_units = {} if has_package_units else {f"{unit}.{kind}": refresh[kind] for kind in ("service", "path")}
    return {
        "packages": _packages(toolkit["packages"], settings["version"]),
        "files": _files(toolkit, settings, own_units),
        "units": _units(toolkit, settings["engine"], unit, has_package_units=has_package_units),
    }


def _packages(names: list[str], version: str) -> ContainerToolkitPackages:
    """Return the packages; of the newest version the first brings the others with it."""
    return {
        "present": [f"{name}={version}" for name in names] if version else names[:1],
        "held": names if version else [],
        "unheld": [] if version else names,
        "allow_downgrade": bool(version),
    }


def _files(
    toolkit: ContainerToolkit, settings: ContainerToolkitSettings, own_units: Mapping[str, str]
) -> list[FileEntry]:
    entries: list[FileEntry] = []
    abilities = settings["abilities"]
    if settings["vendor"] == "nvidia":
        lines = [] if abilities.get("cdi_additional_gids", True) else [OLD_READER_FLAG]
        entries += [
            {"path": NVIDIA_FOLDER, "state": "directory"},
            {
                "path": NVIDIA_ENVIRONMENT,
                "state": "lines",
                "lines": lines,
                "remove": [f"^{OLD_READER_FLAG}$"],
            },
        ]
    entries += [
        {"path": f"/etc/systemd/system/{name}", "content": content} for name, content in own_units.items()
    ]
    if settings["engine"] == "docker":
        daemon = _docker_settings(
            toolkit["runtime"], default_runtime=settings["default_runtime"], cdi=abilities.get("cdi", False)
        )
        entries += [
            {"path": "/etc/docker", "state": "directory"},
            {"path": DAEMON_JSON, "state": "json", "content": json.dumps(daemon)},
        ]
    return entries


def _docker_settings(runtime: Mapping[str, str], *, default_runtime: bool, cdi: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"runtimes": {runtime["name"]: {"path": runtime["path"], "args": []}}}
    if cdi:
        settings["features"] = {"cdi": True}
    if default_runtime:
        settings["default-runtime"] = runtime["name"]
    return settings


def _units(toolkit: ContainerToolkit, engine: str, unit: str, *, has_package_units: bool) -> list[UnitEntry]:
    """Return the units that keep the CDI specification current, and Docker's, which restarts on new settings.

    The package starts its own service; without a driver that exits at once, which is not a failure.
    """
    service: UnitEntry = {"name": f"{unit}.service", "enabled": True}
    if has_package_units:
        service["restart_on"] = [NVIDIA_ENVIRONMENT]
    else:
        service["state"] = "started"
        service["restart_on"] = [toolkit["packages"][0]]
    entries: list[UnitEntry] = [{"name": f"{unit}.path", "enabled": True, "state": "started"}, service]
    if engine == "docker":
        entries.append({"name": "docker.service", "restart_on": [DAEMON_JSON]})
    return entries


def container_toolkit_not_applied_reasons(
    script_values: Mapping[str, str],
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
    problems = read_not_applied_reasons(applied)
    if script_values.get("installed") == "yes" and not script_values.get("devices"):
        message = script_values.get("why", script_values.get("failed", "the specification lists none"))
        problems["devices"] = f"no CDI devices: {message}"
    count = script_values.get("specifications", "0")
    if int(count) > 1:
        problems["specifications"] = (
            f"the same devices are in {count} files of /etc/cdi and /var/run/cdi; engines refuse all but one"
        )
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "default_toolkit_vendor": default_toolkit_vendor,
            "needs_toolkit": needs_container_toolkit,
            "toolkit_resources": container_toolkit_resources,
            "toolkit_not_applied": container_toolkit_not_applied_reasons,
        }

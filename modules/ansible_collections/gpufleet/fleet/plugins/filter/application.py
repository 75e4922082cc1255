# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files, services and obstacles of an application, from its rendered units. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    parse_script_values,
    read_not_applied_reasons,
)

QUADLETS = "/etc/containers/systemd"
SECRETS = "/etc/gpufleet/secrets"
UNSET_VENDORS = (None, "", "auto", "none")
INSTALLED_ONLY = "installed and not started: a rehearsed host runs no containers"


class RenderedUnit(TypedDict):
    """A unit file as ``gpufleet.fleet.units`` renders it."""

    path: str
    content: str
    service: str
    quadlet: bool


class InstalledApplication(TypedDict):
    """What the role's look.sh found on the node: its engine, gpufleet's unit files, and secrets."""

    has_engine: bool
    version: str
    generator: str
    units: list[str]
    secrets: list[str]


class RenderedApplication(TypedDict):
    """What ``gpufleet.fleet.units`` returns."""

    units: list[RenderedUnit]
    secret_files: list[str]
    secrets_stored: list[str]
    warnings: list[str]


def application_gpu_vendor(software: Mapping[str, Any], *, plan: Mapping[str, Any]) -> str:
    """Return the vendor of the cards: that of the template's driver, else of the driver plan, else none."""
    vendors = ((software.get("driver") or {}).get("vendor"), plan.get("vendor"))
    return next((vendor for vendor in vendors if vendor not in UNSET_VENDORS), "none")


def parse_installed_application(script_result: Mapping[str, Any]) -> InstalledApplication:
    """Return what look.sh printed as ``name=value`` lines; ``unit`` and ``secret`` may occur several times."""
    answers = parse_script_values(script_result)
    pairs = [line.split("=", 1) for line in script_result.get("stdout_lines") or []]
    return {
        "has_engine": answers.get("installed") == "yes",
        "version": answers.get("version", ""),
        "generator": answers.get("generator", ""),
        "units": [value for name, value in pairs if name == "unit"],
        "secrets": [value for name, value in pairs if name == "secret"],
    }


def application_service_names(unit_files: list[Mapping[str, Any]]) -> list[str]:
    """Return the services of unit files; a quadlet's has its name."""
    paths = (PurePosixPath(entry["path"]) for entry in unit_files)
    return [path.with_suffix(".service").name if path.suffix == ".container" else path.name for path in paths]


def application_unit_files(
    rendered: RenderedApplication, *, verify_script: str, generator: str
) -> list[dict[str, Any]]:
    """Return the unit files; before one is replaced, podman's generator or systemd verifies it."""
    entries: list[dict[str, Any]] = []
    if any(unit["quadlet"] for unit in rendered["units"]):
        entries.append({"path": QUADLETS, "state": "directory"})
    for unit in rendered["units"]:
        name = PurePosixPath(unit["path"]).name
        validate = ["sh", "-c", verify_script, "verify", "{}", name, generator]
        entries.append({"path": unit["path"], "content": unit["content"], "validate": validate})
    return entries


def application_unit_entries(rendered: RenderedApplication, *, start: bool) -> list[dict[str, Any]]:
    """Return the services; a quadlet is enabled by its own file."""
    entries = []
    for unit in rendered["units"]:
        entry: dict[str, Any] = {"name": unit["service"], "restart_on": [unit["path"]]}
        if not unit["quadlet"]:
            entry["enabled"] = start
        if start:
            entry["state"] = "started"
        entries.append(entry)
    return entries


def application_secret_files(secrets: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the folder of secrets and one file for each secret that the operator gives."""
    folders = [
        {"path": str(PurePosixPath(SECRETS).parent), "state": "directory"},
        {"path": SECRETS, "state": "directory", "mode": "0700"},
    ]
    return folders + [
        {"path": f"{SECRETS}/{name}", "content": str(value), "mode": "0400"}
        for name, value in secrets.items()
    ]


def application_obsolete_unit_files(
    rendered: RenderedApplication, *, installed: list[str]
) -> list[dict[str, str]]:
    """Return entries that remove the unit files of an earlier application."""
    current = {unit["path"] for unit in rendered["units"]}
    return [{"path": path, "state": "absent"} for path in dict.fromkeys(installed) if path not in current]


def application_missing_secrets(
    rendered: RenderedApplication, *, installed: list[str], secrets: Mapping[str, Any]
) -> list[str]:
    """Return secrets that the application reads, and that are neither on the node nor given."""
    available = {*installed, *(f"{SECRETS}/{name}" for name in secrets)}
    missing = [path for path in rendered["secret_files"] if path not in available]
    stored = [f"podman secret {name}" for name in rendered["secrets_stored"]]
    return missing + [name for name in stored if name not in installed]


def application_start_obstacles(missing_secrets: list[str], *, engine: str, is_installed: bool) -> list[str]:
    """Return why the application cannot start."""
    absent = [] if is_installed else [f"{engine} is not installed: run drivers.yml first"]
    return absent + [f"{name} is not on the node: docs/templates.md, Secrets" for name in missing_secrets]


def application_not_applied_reasons(
    rendered: RenderedApplication, *, applied: Mapping[str, Any], start: bool, obstacles: list[str]
) -> dict[str, Any]:
    """Return what the host does not have of the application, each with its reason."""
    reasons = read_not_applied_reasons(applied)
    if not start and rendered["units"]:
        reasons["containers"] = {unit["service"]: INSTALLED_ONLY for unit in rendered["units"]}
    if not start and obstacles:
        reasons["application"] = obstacles
    if rendered["warnings"]:
        reasons["warnings"] = rendered["warnings"]
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "application_vendor": application_gpu_vendor,
            "application_installed": parse_installed_application,
            "application_services": application_service_names,
            "application_files": application_unit_files,
            "application_units": application_unit_entries,
            "application_secret_files": application_secret_files,
            "application_obsolete_files": application_obsolete_unit_files,
            "application_missing_secrets": application_missing_secrets,
            "application_obstacles": application_start_obstacles,
            "application_not_applied": application_not_applied_reasons,
        }

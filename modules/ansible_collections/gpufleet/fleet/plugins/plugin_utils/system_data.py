# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which roles support which operating system, and a role's values for one: family, then distribution, then system.

The systems themselves are in the table of gpufleet.catalog (operating_systems.csv).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible.utils.vars import merge_hash

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import defer_import_errors

with defer_import_errors():
    from gpufleet.boundary import decode_yaml, read_text
    from gpufleet.catalog import OperatingSystem, load_operating_systems
    from gpufleet.errors import InputError

# The group of every role. A system names the groups that support it, so that none is supported by accident.
ROLE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "base": (
        "application",
        "burn_in",
        "common",
        "container_engine",
        "container_toolkit",
        "cpu_governor",
        "efa",
        "exporters",
        "fact_injection",
        "gpu_settings",
        "hardening",
        "hugepages_and_limits",
        "ib_tools",
        "image",
        "kernel_arguments",
        "network",
        "network_mesh",
        "nfs_client",
        "nfs_server",
        "os_upgrade",
        "power",
        "restart",
        "spot_notice",
        "storage",
        "system",
        "time",
        "users_and_access",
        "wipe",
    ),
    "blade": ("blade",),
    "nvidia": (
        "cuda",
        "nvidia_driver",
        "nvidia_fabric_manager",
        "nvidia_gpudirect",
        "nvidia_mig",
        "nvidia_persistence",
    ),
    "amd": ("rocm",),
}
SECTIONS = ("families", "distributions", "systems")
CODENAME = "{codename}"  # in a role's values: the system's codename (bookworm, noble)


def list_supported_systems(role: str) -> list[OperatingSystem]:
    """Return the systems that a role supports; an InputError for a role that has no group."""
    groups = {group for group, roles in ROLE_GROUPS.items() if role in roles}
    if not groups:
        raise InputError(f"the role {role} has no group", remedy="add it to ROLE_GROUPS in system_data.py")
    return [system for system in load_operating_systems().values() if groups & system.role_groups]


def read_role_system_values(systems_file: Path, system_name: str) -> dict[str, Any]:
    """Return a role's values for one system from its file systems.yml.

    Mappings are merged key by key; a list or a single value of the more exact section replaces the other. An
    unsupported system or a name that the table does not have is an InputError that names the file.
    """
    role = systems_file.parent.name
    supported = {system.name: system for system in list_supported_systems(role)}
    if system_name not in supported:
        raise InputError(
            f"the role {role} does not support the system {system_name}",
            where=str(systems_file),
            remedy=f"use one of {', '.join(supported)}, or add the system to operating_systems.csv",
        )
    sections = _read_sections(systems_file)
    system = supported[system_name]
    values: dict[str, Any] = {}
    for section, name in zip(SECTIONS, (system.family, system.distribution, system.name), strict=True):
        values = merge_hash(values, sections[section].get(name) or {})
    filled: dict[str, Any] = _fill_codename(values, system.codename)
    return filled


@cache
def _read_sections(path: Path) -> dict[str, Mapping[str, Any]]:
    document = decode_yaml(read_text(path), str(path))
    systems = load_operating_systems().values()
    names = {
        "families": {system.family for system in systems},
        "distributions": {system.distribution for system in systems},
        "systems": {system.name for system in systems},
    }
    _check_names(path, "section", document, SECTIONS)
    sections = {section: document.get(section) or {} for section in SECTIONS}
    for section, entries in sections.items():
        _check_names(path, f"name in {section}", entries, names[section])
    return sections


def _check_names(path: Path, kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InputError(
            f"unknown {kind}: {', '.join(unknown)}",
            where=str(path),
            remedy=f"use one of {', '.join(sorted(known))}",
        )


def _fill_codename(value: Any, codename: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill_codename(item, codename) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_codename(item, codename) for item in value]
    return value.replace(CODENAME, codename) if isinstance(value, str) else value

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What hardens a node: sshd's algorithms, kernel settings, upgrades, file systems, the firewall's files. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    APT_HEADER,
    managed_file_text,
    select_role_topics,
)

FILESYSTEMS_FILE = "/etc/modprobe.d/60-gpufleet.conf"
APT_FILE = "/etc/apt/apt.conf.d/60gpufleet-upgrades"
DNF_FILE = "/etc/dnf/automatic.conf"
# After audit.rules, which is the distribution's: of -b, -f and -r the last one counts (augenrules(8)).
AUDIT_RULES_FILE = "/etc/audit/rules.d/gpufleet.rules"
AUDITD_FILE = "/etc/audit/auditd.conf"
FIREWALL_UNIT = "/etc/systemd/system/gpufleet-firewall.service"
ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]+")


class HardeningSettings(TypedDict):
    """The role's settings, without those of the modules ``firewall`` and ``sshd``."""

    sysctl_settings: dict[str, Any]
    upgrades: str
    upgrades_hold_back: list[str]
    disabled_filesystems: list[str]
    firewall: str


class AuditSettings(TypedDict):
    """The settings of the audit log; ``state`` is present or absent, ``disk_full`` auditd's action in lower case."""

    state: str
    rules: list[str]
    backlog: int
    rate_per_second: int
    log_file_mib: int
    log_files: int
    disk_full: str


class AuditSystemNames(TypedDict):
    """A system's packages of the audit daemon, and whether the daemon is part of the system."""

    hardening_audit_packages: list[str]
    hardening_audit_runs_when_absent: bool


class HardeningSystemNames(TypedDict):
    """A system's names for the program that installs upgrades."""

    hardening_upgrades_tool: str
    hardening_upgrades_packages: list[str]
    hardening_upgrades_units: list[UnitEntry]
    hardening_upgrades_timers: list[str]
    hardening_upgrades_origins: list[str]


class HardeningResources(TypedDict):
    packages: list[str]
    files: list[FileEntry]
    sysctl: dict[str, Any]
    units: list[UnitEntry]


def select_hardening_topics(
    settings: HardeningSettings, *, run_tags: list[str], skip_tags: list[str]
) -> list[str]:
    """Return the topics that the settings use, and that ``--tags`` and ``--skip-tags`` leave."""
    uses = {
        "sysctl": bool(settings["sysctl_settings"]),
        "upgrades": settings["upgrades"] != "unmanaged",
        "filesystems": True,
        "firewall": settings["firewall"] == "present",
    }
    used = [topic for topic, is_used in uses.items() if is_used]
    return select_role_topics(used, run_tags=run_tags, skip_tags=skip_tags)


def hardening_resources(
    settings: HardeningSettings,
    *,
    system: HardeningSystemNames,
    topics: list[str],
    firewall_unit: str,
) -> HardeningResources:
    """Return what the host is given of these topics."""
    resources: HardeningResources = {"packages": [], "files": [], "sysctl": {}, "units": []}
    if "filesystems" in topics:
        resources["files"].append(_filesystems_file(settings["disabled_filesystems"]))
    if "upgrades" in topics:
        resources["files"].append(_upgrades_file(settings, system))
        resources["units"] += _upgrades_units(settings["upgrades"], system)
        if settings["upgrades"] == "security":
            resources["packages"] += system["hardening_upgrades_packages"]
    if "firewall" in topics:
        resources["packages"].append("nftables")
        resources["files"] += [
            {"path": "/etc/gpufleet", "state": "directory"},
            {"path": FIREWALL_UNIT, "content": f"{firewall_unit}\n"},
        ]
    if "sysctl" in topics:
        resources["sysctl"] = settings["sysctl_settings"]
    return resources


def audit_resources(settings: AuditSettings, *, system: AuditSystemNames) -> HardeningResources:
    """Return packages, files and units of the audit log; without it, the daemon of the system keeps running."""
    unit: UnitEntry = {"name": "auditd.service", "enabled": True, "state": "started"}
    if settings["state"] == "absent":
        stopped: UnitEntry = {"name": "auditd.service", "enabled": False, "state": "stopped"}
        units = [] if system["hardening_audit_runs_when_absent"] else [stopped]
        rules: FileEntry = {"path": AUDIT_RULES_FILE, "state": "absent"}
        return {"packages": [], "files": [rules], "sysctl": {}, "units": units}
    action = settings["disk_full"].upper()
    daemon = {
        "max_log_file": settings["log_file_mib"],
        "num_logs": settings["log_files"],
        "max_log_file_action": "ROTATE",
        "space_left_action": "SYSLOG",
        "admin_space_left_action": action,
        "disk_full_action": action,
        "disk_error_action": "SYSLOG" if action == "ROTATE" else action,
    }
    limits = [f"-b {settings['backlog']}", f"-r {settings['rate_per_second']}", "-f 1"]
    files: list[FileEntry] = [
        {"path": "/etc/gpufleet", "state": "directory"},
        {
            "path": AUDIT_RULES_FILE,
            "content": managed_file_text([*limits, *settings["rules"]]),
            "mode": "0640",
        },
        {
            "path": AUDITD_FILE,
            "state": "lines",
            "lines": [f"{name} = {value}" for name, value in daemon.items()],
            "remove": [rf"^\s*{name}\s*=" for name in daemon],
        },
    ]
    return {"packages": system["hardening_audit_packages"], "files": files, "sysctl": {}, "units": [unit]}


def select_sshd_algorithms(
    lists: Mapping[str, list[str]],
    *,
    sshd_settings: Mapping[str, Any],
    system_lists: Mapping[str, list[str]],
) -> dict[str, list[str]]:
    """Return the lists that are not empty; a keyword among the settings counts instead of its list.

    The entry ``system`` of a list stands for the list of the operating system.
    """
    set_keywords = {name.lower() for name in sshd_settings}
    expanded = {
        keyword: [
            name for entry in names for name in (system_lists[keyword] if entry == "system" else [entry])
        ]
        for keyword, names in lists.items()
        if keyword.lower() not in set_keywords
    }
    return {keyword: names for keyword, names in expanded.items() if names}


def _filesystems_file(names: list[str]) -> FileEntry:
    content = managed_file_text(f"install {name} /bin/false" for name in sorted(names))
    return {"path": FILESYSTEMS_FILE, "state": "file" if names else "absent", "content": content}


def _upgrades_file(settings: HardeningSettings, system: HardeningSystemNames) -> FileEntry:
    """Return the file that turns upgrades to security fixes on, or all off."""
    is_on = settings["upgrades"] == "security"
    held_back = settings["upgrades_hold_back"]
    if system["hardening_upgrades_tool"] == "dnf":
        if not is_on:
            return {"path": DNF_FILE, "state": "absent"}
        return {"path": DNF_FILE, "content": _dnf_security(held_back)}
    if not is_on:
        return {"path": APT_FILE, "content": f'{APT_HEADER}\nAPT::Periodic::Unattended-Upgrade "0";\n'}
    content = _apt_security(system["hardening_upgrades_origins"], held_back)
    return {"path": APT_FILE, "content": content, "validate": ["apt-config", "-c", "{}", "dump"]}


def _upgrades_units(mode: str, system: HardeningSystemNames) -> list[UnitEntry]:
    """Return the units that start upgrades, or the timers to stop if upgrades are off."""
    if mode == "security":
        return system["hardening_upgrades_units"]
    return [
        {"name": name, "enabled": False, "state": "stopped"} for name in system["hardening_upgrades_timers"]
    ]


def _apt_security(origins: list[str], held_back: list[str]) -> str:
    lines = [
        APT_HEADER,
        'APT::Periodic::Update-Package-Lists "1";',
        'APT::Periodic::Unattended-Upgrade "1";',
        'Unattended-Upgrade::Automatic-Reboot "false";',
        "#clear Unattended-Upgrade::Allowed-Origins;",
        "#clear Unattended-Upgrade::Origins-Pattern;",
        *_apt_list("Unattended-Upgrade::Origins-Pattern", origins),
        *_apt_list("Unattended-Upgrade::Package-Blacklist", map(_apt_expression, held_back)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _apt_list(name: str, values: Iterable[str]) -> list[str]:
    return [f"{name} {{", *(f'  "{value}";' for value in values), "};"]


def _apt_expression(pattern: str) -> str:
    """Return a pattern of the shell as a regular expression, which apt matches from the start of a name."""
    expression = pattern.replace(".", "[.]").replace("+", "[+]").replace("*", ".*")
    return f"^{expression}$"


def _dnf_security(held_back: list[str]) -> str:
    lines = [
        "[commands]",
        "upgrade_type = security",
        "apply_updates = yes",
        "reboot = never",
        "[emitters]",
        "emit_via = stdio",
        "[base]",
        f"excludepkgs = {','.join(held_back)}",
    ]
    return managed_file_text(lines)


def other_rack_node_addresses(
    groups: Mapping[str, list[str]], *, hostvars: Mapping[str, Mapping[str, Any]], rack: str, node: str
) -> list[str]:
    """Return the addresses of the other nodes of a rack, as the inventory knows them; names are left out."""
    if not rack:
        return []
    others = [name for name in groups.get(rack_group_name(rack), []) if name != node]
    addresses = [str(hostvars[name].get("ansible_host", "")) for name in others]
    return sorted(address for address in addresses if ADDRESS.fullmatch(address))


def rack_group_name(rack: str) -> str:
    """Return the inventory's group of a rack, as gpufleet.nodes.host names it."""
    return f"rack_{re.sub('[^A-Za-z0-9]+', '_', rack).strip('_').lower()}"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "hardening_topics": select_hardening_topics,
            "hardening_resources": hardening_resources,
            "hardening_audit_resources": audit_resources,
            "hardening_sshd_algorithms": select_sshd_algorithms,
            "rack_addresses": other_rack_node_addresses,
        }

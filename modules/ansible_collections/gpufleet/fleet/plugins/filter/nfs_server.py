# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role nfs_server exports, and the checks before it does. Pure.

Options and their meaning: exports(5) of nfs-utils 2.6.2 (Debian 12), read 2026-11-23.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.module_utils.nfs import is_export_path
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import managed_file_text

EXPORTS_FOLDER = "/etc/exports.d"
EXPORTS_FILE = f"{EXPORTS_FOLDER}/gpufleet.exports"
SETTINGS_FOLDER = "/etc/nfs.conf.d"
SETTINGS_FILE = f"{SETTINGS_FOLDER}/gpufleet.conf"
UNIT = "nfs-server.service"
FLAGS = (
    "ro", "rw", "sync", "async", "wdelay", "no_wdelay", "subtree_check", "no_subtree_check", "root_squash",
    "no_root_squash", "all_squash", "no_all_squash", "secure", "insecure", "crossmnt", "nohide", "hide", "mountpoint",
    "security_label",
)  # fmt: skip
VALUES = re.compile(
    r"(anonuid|anongid)=\d+|fsid=(root|\d+|[0-9a-f-]{36})|sec=(sys|krb5|krb5i|krb5p)(:(sys|krb5[ip]?))*"
)


class NfsClients(TypedDict):
    """Clients of an export by address, and the options that they get."""

    network: str
    options: NotRequired[list[str]]


class NfsExport(TypedDict):
    """A folder and its clients; with a mode the role creates the folder, without one it must exist."""

    path: str
    clients: list[NfsClients]
    allow_root: NotRequired[bool]
    owner: NotRequired[str]
    group: NotRequired[str]
    mode: NotRequired[str]


class NfsServerPlan(TypedDict):
    """What gpufleet.fleet.resources applies."""

    packages: list[str]
    files: list[FileEntry]
    units: list[UnitEntry]


def client_problem(client: NfsClients, *, allow_root: bool) -> str | None:
    """Return why a client of an export is refused, or None."""
    try:
        network = ipaddress.ip_network(client["network"])
    except ValueError as error:
        return f"{error}; give an address or a network such as 10.0.0.0/24"
    if network.prefixlen == 0:
        return f"{client['network']} is every address; name the clients' network"
    options = client.get("options", [])
    for option in options:
        if option not in FLAGS and not VALUES.fullmatch(option):
            return f"{option!r} is not an option of exports(5) that the role supports"
    if "no_root_squash" in options and not allow_root:
        return "no_root_squash gives root of the clients the rights of root here; set allow_root to permit it"
    return None


def check_exports(exports: Sequence[NfsExport]) -> None:
    """Raise AnsibleFilterError for the first export that is refused."""
    paths = [export["path"] for export in exports]
    for number, export in enumerate(exports):
        path, problem = export["path"], None
        if not is_export_path(path):
            problem = "must be an absolute path without '..', spaces or special characters"
        elif paths.count(path) > 1:
            problem = "is exported twice"
        elif not export["clients"]:
            problem = "has no clients"
        else:
            is_root_allowed = export.get("allow_root", False)
            problems = (client_problem(client, allow_root=is_root_allowed) for client in export["clients"])
            problem = next(filter(None, problems), None)
        if problem:
            raise AnsibleFilterError(f"nfs_server_exports[{number}] {path}: {problem}")


def export_line(export: NfsExport) -> str:
    """Return the line of exports(5). Without subtree_check, exportfs prints a warning."""
    clients = []
    for client in export["clients"]:
        options = list(client.get("options", []))
        if not {"subtree_check", "no_subtree_check"} & set(options):
            options.append("no_subtree_check")
        clients.append(f"{client['network']}({','.join(options)})")
    return " ".join([export["path"], *clients])


def nfs_server_plan(
    exports: list[NfsExport], *, system: Mapping[str, Any], serve_version_3: bool, is_started: bool
) -> NfsServerPlan:
    """Return what makes a host the server of these exports; without exports, what takes back gpufleet's."""
    check_exports(exports)
    unit: UnitEntry = {"name": UNIT, "reload_on": [EXPORTS_FILE], "restart_on": [SETTINGS_FILE]}
    if not exports:
        files: list[FileEntry] = [{"path": path, "state": "absent"} for path in (EXPORTS_FILE, SETTINGS_FILE)]
        return {"packages": [], "files": files, "units": [unit] if is_started else []}
    settings = ["[nfsd]", f"vers3={'y' if serve_version_3 else 'n'}"]
    files = [shared_folder(export) for export in exports if "mode" in export]
    files += [
        {"path": EXPORTS_FOLDER, "state": "directory"},
        {"path": EXPORTS_FILE, "content": managed_file_text(map(export_line, exports))},
        {"path": SETTINGS_FOLDER, "state": "directory"},
        {"path": SETTINGS_FILE, "content": managed_file_text(settings)},
    ]
    units: list[UnitEntry] = [{**unit, "enabled": True, "state": "started"}] if is_started else []
    return {"packages": list(system["nfs_server_packages"]), "files": files, "units": units}


def shared_folder(export: NfsExport) -> FileEntry:
    """Return the entry that creates an exported folder, or corrects its owner and mode."""
    return {
        "path": export["path"],
        "state": "directory",
        "mode": export["mode"],
        "owner": export.get("owner", "root"),
        "group": export.get("group", "root"),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nfs_server_plan": nfs_server_plan}

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the interfaces' MTU lasts over restarts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import HEADER, managed_file_text

FALLBACK_KEEPER = "networkd"
# The first link file that fits an interface is the only one, so this keeps what systemd's own says of names.
LINK_LINES = (
    "NamePolicy=keep kernel database onboard slot path",
    "AlternativeNamesPolicy=database onboard slot path",
    "MACAddressPolicy=persistent",
)


class PersistentMtuPlan(TypedDict):
    """The files of the service that keeps the MTU, and why it will not last (empty where it will)."""

    files: list[FileEntry]
    problem: str


def plan_persistent_mtu(
    mtu_by_interface: Mapping[str, int], *, keeper: str, system_keepers: list[str], host_keepers: list[str]
) -> PersistentMtuPlan:
    """Return the configuration of the service that keeps the MTU; the module ``frames`` sets running interfaces.

    ``keeper`` is a service, or ``distribution``: the first of the system's that brings up interfaces on this host.
    """
    if not mtu_by_interface:
        return {"files": [], "problem": ""}
    if keeper == "distribution":
        keeper = next((known for known in system_keepers if known in host_keepers), FALLBACK_KEEPER)
    problem = f"{keeper} brings up no interface of this host: its MTU lasts until it restarts"
    return {
        "files": WRITERS[keeper](mtu_by_interface),
        "problem": "" if keeper in host_keepers else problem,
    }


def find_unused_template_mtu(
    mtu_by_interface: Mapping[str, int], *, template_mtu: int | None
) -> dict[str, dict[str, str]]:
    """Return that the template has an MTU which no interface gets, in the form of a module's result."""
    if not template_mtu or str(template_mtu) in map(str, mtu_by_interface.values()):
        return {}
    reason = f"the template has mtu {template_mtu}, but network_mtu gives it to no interface"
    return {"not_applied": {"template_mtu": reason}}


def _networkd_files(mtu_by_interface: Mapping[str, int]) -> list[FileEntry]:
    """Return systemd's link files, which udev reads."""
    return [
        {"path": f"/etc/systemd/network/60-gpufleet-{name}.link", "content": _link_file(name, mtu)}
        for name, mtu in mtu_by_interface.items()
    ]


def _link_file(name: str, mtu: int) -> str:
    return managed_file_text(
        ["[Match]", f"OriginalName={name}", "", "[Link]", *LINK_LINES, f"MTUBytes={mtu}"]
    )


def _netplan_files(mtu_by_interface: Mapping[str, int]) -> list[FileEntry]:
    interfaces = [f"    {name}: {{mtu: {mtu}}}" for name, mtu in mtu_by_interface.items()]
    content = managed_file_text(["network:", "  version: 2", "  ethernets:", *interfaces])
    return [{"path": "/etc/netplan/90-gpufleet.yaml", "content": content, "mode": "0600"}]


def _networkmanager_files(mtu_by_interface: Mapping[str, int]) -> list[FileEntry]:
    lines: list[str] = []
    for name, mtu in mtu_by_interface.items():
        lines += [
            f"[connection-gpufleet-{name}]",
            f"match-device=interface-name:{name}",
            f"ethernet.mtu={mtu}",
            f"infiniband.mtu={mtu}",
        ]
    return [{"path": "/etc/NetworkManager/conf.d/60-gpufleet-mtu.conf", "content": managed_file_text(lines)}]


def _ifupdown_files(mtu_by_interface: Mapping[str, int]) -> list[FileEntry]:
    cases = [f'  {name}) ip link set dev "$IFACE" mtu {mtu} ;;\n' for name, mtu in mtu_by_interface.items()]
    return [
        {
            "path": "/etc/network/if-up.d/gpufleet-mtu",
            "mode": "0755",
            "validate": ["sh", "-n", "{}"],
            "content": f"#!/bin/sh\n{HEADER}case $IFACE in\n{''.join(cases)}esac\n",
        }
    ]


WRITERS: dict[str, Callable[[Mapping[str, int]], list[FileEntry]]] = {
    "networkd": _networkd_files,
    "netplan": _netplan_files,
    "networkmanager": _networkmanager_files,
    "ifupdown": _ifupdown_files,
}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "network_mtu_plan": plan_persistent_mtu,
            "network_unused_template_mtu": find_unused_template_mtu,
        }

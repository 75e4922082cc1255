# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the base roles decide of their settings: users and link files. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import managed_file

# The first link file that fits an interface is the only one, so this keeps what systemd's own says of names.
LINK_LINES = (
    "NamePolicy=keep kernel database onboard slot path",
    "AlternativeNamesPolicy=database onboard slot path",
    "MACAddressPolicy=persistent",
)


def operator_users(operators: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the operators as entries of ``users``."""
    return [
        {
            "name": operator["name"],
            "state": operator.get("state", "present"),
            "comment": operator.get("comment", "gpufleet operator"),
            "shell": operator.get("shell", "/bin/bash"),
            "authorized_keys": operator.get("authorized_keys", []),
            "revoked_keys": operator.get("revoked_keys", []),
        }
        for operator in operators
    ]


def link_files(mtu_by_interface: Mapping[str, int]) -> list[dict[str, str]]:
    """Return systemd's link files that set each interface's MTU."""
    return [
        {"path": f"/etc/systemd/network/60-gpufleet-{name}.link", "content": _link_file(name, mtu)}
        for name, mtu in mtu_by_interface.items()
    ]


def _link_file(name: str, mtu: int) -> str:
    lines = ["[Match]", f"OriginalName={name}", "", "[Link]", *LINK_LINES, f"MTUBytes={mtu}"]
    return managed_file(lines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"operator_users": operator_users, "link_files": link_files}

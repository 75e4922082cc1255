# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Users and sudo rules of the operators, and whether a run's own login keeps its access. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NotRequired, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import managed_file_text

SUDO_RULES = {"nopasswd": "ALL=(ALL:ALL) NOPASSWD: ALL", "password": "ALL=(ALL:ALL) ALL"}


class OperatorAccount(TypedDict):
    """An entry of ``users_and_access_operators``; the role's argument specification checks it."""

    name: str
    state: NotRequired[str]
    comment: NotRequired[str]
    shell: NotRequired[str]
    sudo: NotRequired[str]
    authorized_keys: NotRequired[list[str]]
    revoked_keys: NotRequired[list[str]]


def operator_user_entries(operators: Iterable[OperatorAccount]) -> list[dict[str, Any]]:
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


def operator_sudoers_text(operators: Iterable[OperatorAccount]) -> str:
    """Return the sudoers file: one rule for each operator who is present and has sudo."""
    return managed_file_text(
        f"{operator['name']} {SUDO_RULES[operator['sudo']]}"
        for operator in operators
        if operator.get("state", "present") == "present" and operator.get("sudo", "none") != "none"
    )


def operator_lockout_reasons(operators: Iterable[OperatorAccount], *, login: str) -> list[str]:
    """Return how the settings would take the login's access away; the login need not be an operator."""
    operator = next((operator for operator in operators if operator["name"] == login), None)
    if operator is None:
        return []
    reasons = []
    if operator.get("state", "present") != "present":
        reasons.append("its user would be removed")
    # root needs no sudo; any other login of a run works through sudo and cannot be asked for a password.
    if login != "root" and operator.get("sudo", "nopasswd") != "nopasswd":
        reasons.append(f"its sudo must be nopasswd, got {operator['sudo']}")
    if operator.get("revoked_keys") and not operator.get("authorized_keys"):
        reasons.append("its keys would be revoked, and no other key is given")
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "operator_users": operator_user_entries,
            "operator_sudoers": operator_sudoers_text,
            "operator_lockout_reasons": operator_lockout_reasons,
        }

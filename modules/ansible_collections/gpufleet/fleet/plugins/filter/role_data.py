# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters that several roles use. Pure: they read no host and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    format_package_specs,
    memlock_limits_text,
    merge_not_applied_reasons,
    not_applied_text,
    parse_script_values,
    select_role_topics,
    shell_script_command,
)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "answers": parse_script_values,
            "memlock_limits": memlock_limits_text,
            "script_command": shell_script_command,
            "merge_not_applied": merge_not_applied_reasons,
            "not_applied_text": not_applied_text,
            "package_specs": format_package_specs,
            "selected_topics": select_role_topics,
        }

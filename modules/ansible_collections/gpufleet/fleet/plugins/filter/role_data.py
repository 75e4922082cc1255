# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters that several roles use. Pure: they read no host and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    memlock_limits,
    merge_not_applied,
    package_specs,
    parse_answers,
    script_command,
    selected_topics,
)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "answers": parse_answers,
            "memlock_limits": memlock_limits,
            "script_command": script_command,
            "merge_not_applied": merge_not_applied,
            "package_specs": package_specs,
            "selected_topics": selected_topics,
        }

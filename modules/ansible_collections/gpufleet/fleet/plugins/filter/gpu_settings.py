# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Declared GPU settings, the files that apply them at each boot, and why they are not in force. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import SYSTEM_UNITS, managed_file_text

UNIT = "gpufleet-gpu-settings.service"
CONFIG = "/etc/gpufleet/gpu_settings.json"
LIBRARY = "/usr/local/lib/gpufleet"
PACKAGE = f"{LIBRARY}/gpu"
# Exit status 2: a card refuses a value, which a second try would not change.
UNIT_LINES = (
    "After=nvidia-persistenced.service nvidia-fabricmanager.service gpufleet-mig.service",
    "Before=docker.service containerd.service kubelet.service slurmd.service",
    "StartLimitIntervalSec=10min",
    "StartLimitBurst=20",
    "[Service]",
    "Type=oneshot",
    "RemainAfterExit=yes",
    f"WorkingDirectory={LIBRARY}",
    f"ExecStart=/usr/bin/python3 -m gpu.gpu_settings {CONFIG}",
    "Restart=on-failure",
    "RestartSec=15",
    "RestartPreventExitStatus=2",
    "[Install]",
    "WantedBy=multi-user.target",
)


def list_gpu_settings(declared: Any) -> list[dict[str, Any]]:
    """Return the declared settings as a list of rows: a mapping is one row for all GPUs."""
    if isinstance(declared, Mapping):
        return [dict(declared)] if declared else []
    if (
        isinstance(declared, Sequence)
        and not isinstance(declared, str)
        and all(isinstance(row, Mapping) for row in declared)
    ):
        return [dict(row) for row in declared]
    raise AnsibleFilterError(
        f"gpu_settings_declared is {declared!r:.60}: must be settings such as {{power_limit: 300}}, or a list of them"
    )


def gpu_settings_files(applied: Mapping[str, Any], *, program: Mapping[str, str]) -> list[FileEntry]:
    """Return the files that apply the settings at each boot; ``program`` has the text of each of its files."""
    # A container without GPUs that answer has its host's kernel: the unit would fail at each boot.
    is_foreign = applied["container"] and applied["problem"]
    condition = ["ConditionVirtualization=!container"] if is_foreign else []
    unit = ["[Unit]", "Description=Settings of the GPUs as declared", *condition, *UNIT_LINES]
    program_files: list[FileEntry] = [
        {"path": f"{PACKAGE}/{name}", "content": text} for name, text in program.items()
    ]
    return [
        {"path": "/etc/gpufleet", "state": "directory"},
        {"path": LIBRARY, "state": "directory"},
        {"path": PACKAGE, "state": "directory"},
        *program_files,
        {"path": CONFIG, "content": json.dumps(applied["config"], indent=1) + "\n"},
        {"path": f"{SYSTEM_UNITS}/{UNIT}", "content": managed_file_text(unit)},
    ]


def gpu_settings_not_applied(applied: Mapping[str, Any], *, is_busy: bool, state: str) -> dict[str, str]:
    """Return why declared settings are not in force; empty if the task did not run."""
    reasons = {}
    if problem := applied.get("problem"):
        reasons["gpu_settings"] = f"applied at the next boot; {problem}"
    elif is_busy and applied.get("changes"):
        reasons["gpu_settings"] = f"a job may run here: the node is {state}"
    if unsupported := applied.get("unsupported"):
        reasons["gpu_settings_unsupported"] = "; ".join(unsupported)
    if needs := applied.get("needs"):
        reasons["restart"] = "; ".join(needs)
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "gpu_settings_rows": list_gpu_settings,
            "gpu_settings_files": gpu_settings_files,
            "gpu_settings_not_applied": gpu_settings_not_applied,
        }

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The service that watches for a cloud's spot notice: its files and its unit. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (
    defer_import_errors,
    require_gpufleet,
)
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    SYSTEM_UNITS,
    managed_file_text,
    read_not_applied_reasons,
)

with defer_import_errors():
    from gpufleet.boundary import decode_json_object
    from gpufleet.errors import InputError

UNIT = "gpufleet-spot-notice.service"
CONFIG = "/etc/gpufleet/spot-notice.json"
LIBRARY = "/usr/local/lib/gpufleet"
PACKAGE = f"{LIBRARY}/spot"
STATE_FOLDER = "/var/lib/gpufleet"
STATE_FILE = f"{STATE_FOLDER}/spot-notice.json"
METRICS_NAME = "gpufleet_spot.prom"
# The metadata services of all three clouds have this address.
METADATA_ADDRESS = "http://169.254.169.254"
RECORDED_KEYS = ("status", "notice", "hooks", "drain_seconds", "previous")
STOP_MARGIN_SECONDS = 15  # the question at a shutdown, the acknowledgement and the files
# At a shutdown systemd stops units in the opposite order: these wait until the node is drained.
AFTER = (
    "network-online.target docker.service containerd.service podman.service kubelet.service k3s.service "
    "k3s-agent.service slurmd.service"
)


class SpotNoticeSettings(TypedDict):
    """The role's settings by their names without the prefix."""

    cloud: str
    address: str
    drain_folder: str
    drain_seconds: int
    drain_on_rebalance: bool
    poll_seconds: int
    metrics_folder: str


class SpotNoticeResources(TypedDict):
    files: list[FileEntry]
    units: list[UnitEntry]


def spot_notice_resources(settings: SpotNoticeSettings, *, program: Mapping[str, str]) -> SpotNoticeResources:
    """Return the files and the unit; ``program`` has the text of each of the program's files."""
    seconds = int(settings["drain_seconds"])
    if seconds < 1:
        raise AnsibleFilterError(f"spot_notice_drain_seconds is {seconds}: must be at least 1")
    metrics_folder = settings["metrics_folder"]
    config = {
        "cloud": settings["cloud"],
        "address": settings["address"] or METADATA_ADDRESS,
        "drain_folder": settings["drain_folder"],
        "drain_seconds": seconds,
        "drain_on_rebalance": settings["drain_on_rebalance"],
        "poll_seconds": int(settings["poll_seconds"]),
        "state_file": STATE_FILE,
        "metrics_file": f"{metrics_folder}/{METRICS_NAME}" if metrics_folder else "",
    }
    program_files: list[FileEntry] = [
        {"path": f"{PACKAGE}/{name}", "content": text} for name, text in program.items()
    ]
    folders = ("/etc/gpufleet", settings["drain_folder"], LIBRARY, PACKAGE, STATE_FOLDER)
    folder_entries: list[FileEntry] = [{"path": path, "state": "directory"} for path in folders]
    files: list[FileEntry] = [
        *folder_entries,
        *program_files,
        {"path": CONFIG, "content": json.dumps(config, indent=1) + "\n"},
        {"path": f"{SYSTEM_UNITS}/{UNIT}", "content": managed_file_text(_unit_lines(seconds))},
    ]
    restart_on = [file["path"] for file in files if "content" in file]
    return {
        "files": files,
        "units": [{"name": UNIT, "enabled": True, "state": "started", "restart_on": restart_on}],
    }


def _unit_lines(drain_seconds: int) -> list[str]:
    return [
        "[Unit]",
        "Description=Watch for the cloud's spot notice and drain this node",
        "Wants=network-online.target",
        f"After={AFTER}",
        "[Service]",
        f"WorkingDirectory={LIBRARY}",
        f"ExecStart=/usr/bin/python3 -B -m spot.spot_notice {CONFIG}",
        "Restart=always",
        "RestartSec=5",
        # Only the program gets the signal: it asks once more, and the hooks may end.
        "KillMode=mixed",
        f"TimeoutStopSec={drain_seconds + STOP_MARGIN_SECONDS}",
        "[Install]",
        "WantedBy=multi-user.target",
    ]


def parse_spot_notice_state(slurped: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the service recorded, for the registry; empty where it has recorded nothing yet."""
    if not slurped.get("content"):
        return {}
    require_gpufleet()
    try:
        state = decode_json_object(base64.b64decode(slurped["content"]), STATE_FILE)
    except (ValueError, InputError):
        return {"status": "unreadable"}
    return {key: state.get(key) for key in RECORDED_KEYS}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "spot_notice_resources": spot_notice_resources,
            "spot_notice_state": parse_spot_notice_state,
            "spot_notice_not_applied": read_not_applied_reasons,
        }

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The state table of NVIDIA's driver: what a host's driver needs next, and whether a restart can give it. Pure.

docs/driver-upgrades.md has the same table; a test compares the two cell by cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

INSTALLED = ("none", "built", "unbuilt")
LOADED = ("none", "installed", "other")
KEY = ("not_needed", "enrolled", "pending", "missing")
NOUVEAU = ("no", "yes")
SERVICES = ("none", "running", "stopped", "failed")
ANY = "*"

RESTART_ACTIONS = ("restart", "load")
START_ACTIONS = ("ready", "start")
MODULE_MISSING_CODES = ("key_missing", "not_built")  # the next boot has no module that it can load

CONSOLE_INSTRUCTIONS = (
    "a person must be at the console during the next boot: MokManager shows 'Perform MOK management'; choose"
    " 'Enroll MOK', 'Continue', 'Yes', type the one-time password, and reboot"
)


class DriverCell(NamedTuple):
    """The state of a host's driver: one value of each axis of the table.

    ``installed``: a driver is on the disk, with or without a module that the kernel can load. ``loaded``: no module,
    that of the installed driver, or another. ``key``: the key that signs the module, under Secure Boot. ``nouveau``:
    whether it holds a card. ``services``: the enabled daemons of the driver.
    """

    installed: str
    loaded: str
    key: str
    nouveau: str
    services: str


class TableRow(NamedTuple):
    """Some cells of the table: values separated by spaces, or ``*``; and what such a host needs."""

    code: str
    installed: str
    loaded: str
    key: str
    nouveau: str
    services: str
    action: str


class DriverDecision(TypedDict):
    """What a driver needs next, and why; ``remedy`` is for a restart that did not help."""

    code: str
    action: str
    reason: str
    remedy: str
    cell: dict[str, str]


# Exactly one row applies to each cell.
TABLE = (
    TableRow("no_driver", "none", "none other", "*", "*", "*", "none"),
    TableRow("ready", "built unbuilt", "installed", "*", "no", "none running", "ready"),
    TableRow("services_stopped", "built unbuilt", "installed", "*", "no", "stopped failed", "start"),
    TableRow("not_loaded", "built", "none", "not_needed enrolled", "no", "*", "load"),
    TableRow("old_module", "built", "other", "not_needed enrolled", "*", "*", "restart"),
    TableRow("nouveau", "built", "none", "not_needed enrolled", "yes", "*", "restart"),
    TableRow("nouveau", "built", "installed", "not_needed enrolled pending", "yes", "*", "restart"),
    TableRow("key_pending", "built", "none other", "pending", "*", "*", "restart"),
    TableRow("key_missing", "built", "none other", "missing", "*", "*", "blocked"),
    TableRow("key_missing", "built", "installed", "missing", "yes", "*", "blocked"),
    TableRow("not_built", "unbuilt", "none other", "*", "*", "*", "blocked"),
    TableRow("not_built", "unbuilt", "installed", "*", "yes", "*", "blocked"),
)

REASONS = {
    "no_driver": "no driver is installed",
    "ready": "driver {installed} is loaded",
    "services_stopped": "driver {installed} is loaded, but {stopped} does not run",
    "not_loaded": "driver {installed} is installed, no module is loaded",
    "old_module": "driver {loaded} is loaded, {installed} is installed",
    "nouveau": "nouveau holds the cards, driver {installed} is installed",
    "key_pending": "driver {installed} cannot be loaded before the firmware enrols its key: {console}",
    "key_missing": (
        "driver {installed} is signed with a key that the firmware does not know, and nobody requested its enrolment:"
        " set nvidia_driver_mok_password (a vault) and run the play drivers again"
    ),
    "not_built": (
        "no module of driver {installed} is built for kernel {kernel}: install that kernel's headers and look at"
        " `dkms status`"
    ),
}
REMEDIES = {
    "not_loaded": "`modprobe nvidia` and the kernel's log say why: {load_error}",
    "old_module": "the initramfs still has the old module: rebuild it (update-initramfs -u -k all, dracut --force)",
    "nouveau": (
        "nouveau came back: /etc/modprobe.d/gpufleet-nvidia.conf must block it, also in the initramfs"
        " (update-initramfs -u -k all, dracut --force)"
    ),
    "key_pending": (
        "nobody confirmed the key at the console during this boot. Open the console, then restart with"
        " gpufleet configure --play reboot -e gpufleet_reboot_always=true"
    ),
}
CONTAINER_REASON = "a container ({container}) loads no module; it uses the kernel of its host"


def matches_row(row: TableRow, cell: DriverCell) -> bool:
    """True if the row applies to the cell."""
    return all(pattern == ANY or value in pattern.split() for pattern, value in zip(row[1:6], cell))


def find_table_row(cell: DriverCell) -> TableRow:
    """Return the row of a cell; raise ValueError for a state that no host can have."""
    rows = [row for row in TABLE if matches_row(row, cell)]
    if len(rows) != 1:
        raise ValueError(f"{len(rows)} rows of the state table apply to {cell}")
    return rows[0]


def classify_driver_state(state: dict[str, Any]) -> DriverCell:
    """Return the cell of a host from what gpufleet.fleet.driver_state read."""
    installed, built, loaded = state["installed"], state["built"], state["nvidia_loaded"]
    if installed is None:
        return DriverCell("none", "other" if loaded else "none", "not_needed", "no", "none")
    return DriverCell(
        installed="built" if built == installed else "unbuilt",
        loaded="none" if not loaded else "installed" if loaded == installed else "other",
        key=state["signing_key"],
        nouveau="yes" if state["nouveau"] else "no",
        services=summarize_services(state["services"]),
    )


def summarize_services(services: dict[str, str]) -> str:
    """Return the worst state of the enabled daemons; ``none`` if none is enabled."""
    for value in ("failed", "stopped", "running"):
        if value in services.values():
            return value
    return "none"


def decide_driver_action(state: dict[str, Any], tried: dict[str, str] | None = None) -> DriverDecision:
    """Return what the driver needs: none, ready, start, load, restart, blocked or (in a container) wait.

    ``tried`` is the code and the installed version for which a restart did not help: it is not repeated.
    """
    cell = classify_driver_state(state)
    row = find_table_row(cell)
    stopped = [name for name, value in sorted(state["services"].items()) if value != "running"]
    values = {
        "installed": state["installed"],
        "loaded": state["nvidia_loaded"],
        "kernel": state["kernel"],
        "container": state["container"],
        "stopped": ", ".join(stopped),
        "console": CONSOLE_INSTRUCTIONS,
        "load_error": state["load_error"] or "see dmesg",
    }
    action, reason = row.action, REASONS[row.code].format(**values)
    remedy = REMEDIES.get(row.code, "").format(**values)
    if state["container"] and action not in ("none", *START_ACTIONS):
        action, reason, remedy = "wait", CONTAINER_REASON.format(**values), ""
    elif action in RESTART_ACTIONS and tried == restart_attempt(row.code, state):
        action, reason = "blocked", f"{reason}; a restart did not change that: {remedy}"
    return {"code": row.code, "action": action, "reason": reason, "remedy": remedy, "cell": cell._asdict()}


def restart_attempt(code: str, state: dict[str, Any]) -> dict[str, str]:
    """Return what identifies a restart: a second one for the same code and version would not help either."""
    return {"code": code, "installed": state["installed"]}


def would_lose_driver(decision: DriverDecision) -> bool:
    """True if a restart would replace a loaded driver by none."""
    return decision["code"] in MODULE_MISSING_CODES and decision["cell"]["loaded"] != "none"

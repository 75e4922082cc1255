# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""systemd's units: all asked in one call, then one call for each verb, and what did not start with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    first_nonempty_line,
    run_program,
)

BOOTED = Path("/run/systemd/system")
# A file changed here is read by systemd only after daemon-reload; quadlets become units in the same step.
UNIT_FOLDERS = ("/etc/systemd/system/", "/run/systemd/system/", "/usr/local/lib/systemd/", "/usr/lib/systemd/",
                "/lib/systemd/", "/etc/containers/systemd/", "/usr/share/containers/systemd/")  # fmt: skip
PROPERTIES = ("Id", "LoadState", "LoadError", "UnitFileState", "ActiveState", "SubState", "Result", "Type",
              "ConditionResult", "ConditionTimestampMonotonic", "NeedDaemonReload", "CanReload",
              "ExecMainExitTimestampMonotonic")  # fmt: skip
# Of these states `systemctl enable` makes nothing new: the unit has no [Install], or another brings it.
ENABLED = ("enabled", "static", "alias", "indirect", "generated", "transient")
VERBS = ("enable", "disable", "stop", "start", "restart", "reload-or-restart")

# A unit's properties as `systemctl show` names them.
Properties = dict[str, str]


class UnitEntry(TypedDict):
    """One entry of the option ``units``; None leaves a property unchanged."""

    name: str
    enabled: bool | None
    state: str | None
    restart_on: list[str]
    reload_on: list[str]
    daemon_reload_on: list[str]


def unit_argument_spec() -> dict[str, Any]:
    """Return the argument specification of the part ``units``."""
    paths = {"type": "list", "elements": "str", "default": []}
    entry = {
        "name": {"type": "str", "required": True},
        "enabled": {"type": "bool"},
        "state": {"type": "str", "choices": ["started", "stopped"]},
        "restart_on": paths,
        "reload_on": paths,
        "daemon_reload_on": paths,
    }
    return {"type": "list", "elements": "dict", "default": [], "options": entry}


def parse_unit_properties(text: str, unit_names: list[str]) -> dict[str, Properties]:
    """Return each unit's properties from ``systemctl show``: blocks in the order of the names, blank lines between."""
    blocks = [block for block in text.strip("\n").split("\n\n") if block]
    if len(blocks) != len(unit_names):
        raise HostError(f"systemctl described {len(blocks)} units, expected {len(unit_names)}")
    return {
        name: dict(line.partition("=")[::2] for line in block.splitlines())
        for name, block in zip(unit_names, blocks)
    }


def read_unit_properties(unit_names: list[str]) -> dict[str, Properties]:
    """Return the properties of all units in one call."""
    status, out, err = run_program(
        ["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", *unit_names]
    )
    if status != 0:
        raise HostError(f"systemctl show {' '.join(unit_names)}: {first_nonempty_line(err, out)}")
    return parse_unit_properties(out, unit_names)


def is_any_rule_triggered(rules: Iterable[str], changed_names: Iterable[str]) -> bool:
    """Return whether a path or package of the rules was changed; a rule with a slash at its end matches all below."""
    return any(
        thing == rule or (rule.endswith("/") and thing.startswith(rule))
        for rule in rules
        for thing in changed_names
    )


def is_unit_active(properties: Properties) -> bool:
    """Return whether a unit runs, or is a one-shot that succeeded since the machine started."""
    if properties["ActiveState"] in ("active", "reloading"):
        return True
    ran = properties.get("ExecMainExitTimestampMonotonic", "0") not in ("", "0")
    return (
        properties.get("Type") == "oneshot"
        and properties["ActiveState"] == "inactive"
        and properties["Result"] == "success"
        and ran
    )


def unit_enable_verbs(unit: UnitEntry, properties: Properties) -> list[str]:
    """Return the systemctl verb that enables or disables the unit as requested, if one is needed."""
    state = properties["UnitFileState"]
    if unit["enabled"] and (state.startswith("masked") or properties["LoadState"] == "masked"):
        raise HostError(
            f"{unit['name']} is masked on this host and cannot be enabled; run systemctl unmask first"
        )
    if unit["enabled"] and state not in ENABLED:
        return ["enable"]
    if unit["enabled"] is False and state.startswith(("enabled", "linked")):
        return ["disable"]
    return []


def unit_runtime_verb(unit: UnitEntry, properties: Properties, changed_names: set[str]) -> str | None:
    """Return the systemctl verb that starts, stops, restarts or reloads the unit as requested, or None."""
    active = is_unit_active(properties)
    up = properties["ActiveState"] in ("active", "reloading", "activating")
    if unit["state"] == "stopped":
        return "stop" if up else None
    if up and is_any_rule_triggered(unit["restart_on"], changed_names):
        return "restart"
    if up and is_any_rule_triggered(unit["reload_on"], changed_names):
        return "reload-or-restart"
    if unit["state"] == "started" and not active:
        return "start"
    if unit["state"] == "started" and not up and is_any_rule_triggered(unit["restart_on"], changed_names):
        return "restart"  # a one-shot whose input changed
    return None


def is_unit_missing(unit: UnitEntry, properties: Properties) -> bool:
    """Return whether the host does not have the unit; raise HostError if systemd cannot load it."""
    if properties["LoadState"] in ("bad-setting", "error"):
        raise HostError(
            f"{unit['name']} cannot be loaded: {properties.get('LoadError') or properties['LoadState']}"
        )
    return properties["LoadState"] == "not-found"


def allows_missing_unit(unit: UnitEntry) -> bool:
    """Return whether the entry is met by a host without the unit."""
    return not unit["enabled"] and unit["state"] != "started"


def find_unmet_condition(unit_name: str) -> str:
    """Return the condition that keeps a unit from starting, as systemd reports it."""
    ___, out, __ = run_program(["systemctl", "status", "--no-pager", "--lines=0", "--", unit_name])
    match = re.search(r"(Condition\w+=.*?) was not met", out)
    return match[1] if match else "see systemctl status"


def read_last_log_line(unit_name: str) -> str:
    """Return the last line that a unit logged."""
    status, out, __ = run_program(
        ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", "20", "-u", unit_name]
    )
    lines = [line.strip() for line in out.splitlines() if line.strip()] if status == 0 else []
    unit_lines = [
        line for line in lines if not line.startswith((unit_name, "Start", "Stopp", "Failed to start"))
    ]
    return unit_lines[-1][:200] if unit_lines else ""


class UnitChanges:
    """Bring the host's units to the state that a task requests; ``changed`` and ``not_applied`` report the outcome."""

    def __init__(
        self, entries: list[UnitEntry], changed_names: set[str], check_mode: bool, pending: bool
    ) -> None:
        self.entries, self.changed_names = entries, changed_names
        self.check_mode, self.has_pending_changes = check_mode, pending
        self.names = [unit["name"] for unit in entries]
        self.changed: dict[str, list[str]] = {}
        self.not_applied: dict[str, str] = {}

    def apply_unit_changes(self) -> None:
        """Enable and start the units as requested, or the reverse, then verify that they run."""
        if not self.entries:
            return
        if not BOOTED.exists():
            self.apply_without_systemd()
            return
        seen = read_unit_properties(self.names)
        if self.needs_daemon_reload(seen):
            self.record_change("daemon-reload", ["systemd"])
            if not self.check_mode:
                self.run_systemctl(["daemon-reload"])
                seen = read_unit_properties(self.names)
        present = [unit for unit in self.entries if self.is_unit_present(unit, seen[unit["name"]])]
        self.run_systemctl_verbs(unit_enable_verbs, present, seen)
        if any(verbs for verbs in self.changed.values()) and not self.check_mode:
            seen = read_unit_properties(self.names)
        self.run_systemctl_verbs(
            lambda unit, now: [unit_runtime_verb(unit, now, self.changed_names)], present, seen
        )
        self.verify_units_started([unit for unit in present if unit["state"] == "started"], seen)

    def needs_daemon_reload(self, seen: dict[str, Properties]) -> bool:
        rules = [rule for unit in self.entries for rule in unit["daemon_reload_on"]]
        stale = any(properties.get("NeedDaemonReload") == "yes" for properties in seen.values())
        return (
            stale
            or is_any_rule_triggered(rules, self.changed_names)
            or is_any_rule_triggered(UNIT_FOLDERS, self.changed_names)
        )

    def is_unit_present(self, unit: UnitEntry, properties: Properties) -> bool:
        if not is_unit_missing(unit, properties):
            return True
        if allows_missing_unit(unit):
            return False
        if self.has_pending_changes:  # a trial: the package or file that brings the unit is yet to come
            self.record_change("enable", [unit["name"]] if unit["enabled"] else [])
            self.record_change("start", [unit["name"]] if unit["state"] == "started" else [])
            return False
        raise HostError(f"there is no unit {unit['name']} on this host", unit=unit["name"])

    def run_systemctl_verbs(
        self,
        verbs_of: Callable[[UnitEntry, Properties], list[str | None] | list[str]],
        present: list[UnitEntry],
        seen: dict[str, Properties],
    ) -> None:
        """Collect the verbs that each unit needs, and call systemctl once for each verb."""
        groups: dict[str, list[str]] = {verb: [] for verb in VERBS}
        for unit in present:
            for verb in filter(None, verbs_of(unit, seen[unit["name"]])):
                if verb == "start" and self.check_mode and self.is_blocked_by_condition(seen[unit["name"]]):
                    continue
                groups[verb].append(unit["name"])
        for verb, names in groups.items():
            if names and not self.check_mode:
                self.run_systemctl([verb, "--", *names])
            # A start may be declined by the unit's own condition: verify_units_started() reports the outcome.
            self.record_change(verb, [] if verb == "start" and not self.check_mode else names)

    def run_systemctl(self, argv: list[str]) -> None:
        """Run one verb; a HostError names the failed unit and the last line that it logged."""
        status, out, err = run_program(["systemctl", *argv])
        if status == 0:
            return
        names = argv[2:]
        broken = (
            [name for name, seen in read_unit_properties(names).items() if seen["ActiveState"] == "failed"]
            if names
            else []
        )
        name = broken[0] if broken else " ".join(names)
        message = (read_last_log_line(name) if broken else "") or first_nonempty_line(err, out)
        raise HostError(
            f"systemctl {argv[0]} {name} failed: {message}", unit=name, changed_units=self.changed
        )

    def verify_units_started(self, units: list[UnitEntry], before: dict[str, Properties]) -> None:
        """Record which units run now and which have an unmet condition; raise HostError for one that failed."""
        now = before if self.check_mode or not units else read_unit_properties(self.names)
        for unit in units:
            name, seen = unit["name"], now[unit["name"]]
            if is_unit_active(seen):
                was = is_unit_active(before[name]) or "restart" in self.changed.get(name, ())
                self.record_change("start", [] if was else [name])
            elif self.is_blocked_by_condition(seen):
                self.not_applied[name] = (
                    f"does not run: its start condition is not met ({find_unmet_condition(name)})"
                )
            elif not self.check_mode and seen["ActiveState"] not in ("activating", "inactive"):
                message = read_last_log_line(name) or seen["Result"]
                raise HostError(
                    f"{name} did not keep running: {message}", unit=name, changed_units=self.changed
                )
            elif not self.check_mode and seen["ActiveState"] == "inactive":
                raise HostError(
                    f"{name} was started and exited at once", unit=name, changed_units=self.changed
                )

    def is_blocked_by_condition(self, properties: Properties) -> bool:
        tested = properties.get("ConditionTimestampMonotonic", "0") not in ("", "0")
        return tested and properties.get("ConditionResult") == "no"

    def record_change(self, verb: str, names: list[str]) -> None:
        for name in names:
            self.changed.setdefault(name, []).append(verb)

    def apply_without_systemd(self) -> None:
        """Enable or disable the units of a system that is not running, such as an image; start nothing."""
        for unit in self.entries:
            name = unit["name"]
            ___, out, __ = run_program(["systemctl", "is-enabled", "--", name])
            state = out.strip() or "not-found"
            seen = {"UnitFileState": state, "LoadState": "masked" if state.startswith("masked") else "loaded"}
            if state == "not-found" and not allows_missing_unit(unit) and not self.has_pending_changes:
                raise HostError(f"there is no unit {name} on this host", unit=name)
            for verb in unit_enable_verbs(unit, seen):
                self.record_change(verb, [name])
                if not self.check_mode:
                    self.run_systemctl([verb, "--", name])
            if unit["state"] == "started":
                self.not_applied[name] = "systemd is not running; the unit starts at the next boot"

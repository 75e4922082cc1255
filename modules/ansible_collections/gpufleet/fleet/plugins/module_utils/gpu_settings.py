# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Power limits, clocks and modes of a host's GPUs: checked against what each card reports, then set.

The module gpufleet.fleet.gpu_settings imports this file. A unit of systemd runs a copy of it at each boot, because a
restart loses the settings. nvidia-smi does not report locked clocks, so they are set again each time, and RECORD has
those of this boot. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .gpu_cards import (
    RESET_OPTIONS,
    SETTINGS,
    SYSFS,
    UNREADABLE,
    Card,
    Change,
    GpuSettingsError,
    NoAnswerError,
    make_amd_change,
    make_nvidia_change,
    read_amd_cards,
    read_nvidia_cards,
)

RECORD = Path("/run/gpufleet/gpu_settings.json")  # settings by card of this boot; a restart loses both
UNITS = {
    "power_limit": " W",
    "graphics_clocks": " MHz",
    "memory_clocks": " MHz",
    "application_clocks": " MHz",
}


def find_problem(card: Card, setting: str, value: Any) -> str:
    """Return why the card cannot have a value, or an empty string."""
    if setting == "power_limit":
        least, most = card.power_range
        return "" if least <= value <= most else f"must be within {least:.0f}-{most:.0f} W"
    if setting == "graphics_clocks":
        graphics = [pair[1] for pair in card.clock_pairs]
        least, most = min(graphics), max(graphics)
        return "" if least <= value[0] <= value[1] <= most else f"must be within {least}-{most} MHz"
    if setting == "memory_clocks":
        clocks = sorted({pair[0] for pair in card.clock_pairs})
        is_known = set(value) <= set(clocks) and value[0] <= value[1]
        return "" if is_known else f"must be of {', '.join(map(str, clocks))} MHz"
    if setting == "application_clocks":
        memory = sorted({pair[0] for pair in card.clock_pairs})
        graphics = [pair[1] for pair in card.clock_pairs if pair[0] == value[0]]
        if not graphics:
            return f"must have a memory clock of {', '.join(map(str, memory))} MHz"
        is_known = value[1] in graphics
        return (
            ""
            if is_known
            else f"must be a supported graphics clock within {min(graphics)}-{max(graphics)} MHz"
        )
    return ""


def format_value(setting: str, value: Any) -> str:
    """Return a value with its unit."""
    if isinstance(value, list):
        separator = "," if setting == "application_clocks" else "-"
        return separator.join(map(str, value)) + UNITS[setting]
    if value is None:
        return "unknown" if setting not in UNREADABLE else "not locked"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value}{UNITS.get(setting, '')}"


def group_by_text(lines: list[tuple[Card, str]]) -> list[str]:
    """Return one line for all cards with the same name and text."""
    groups: dict[tuple[str, str], list[int]] = {}
    for card, text in lines:
        name = "" if card.name.startswith("AMD 0000") else card.name
        groups.setdefault((name, text), []).append(card.index)
    return [
        f"GPU {', '.join(map(str, indexes))}{f' ({name})' if name else ''}: {text}"
        for (name, text), indexes in groups.items()
    ]


def select_card_settings(cards: list[Card], rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the declared settings of each card; a later row replaces the values of an earlier one."""
    selected: dict[int, dict[str, Any]] = {card.index: {} for card in cards}
    for row in rows:
        devices = row.get("devices")
        for index in selected if devices is None else devices:
            if index not in selected:
                raise GpuSettingsError(f"GPU {index} is declared, the host has {len(cards)}")
            selected[index].update({key: value for key, value in row.items() if key != "devices"})
    return selected


def plan_changes(
    vendor: str, cards: list[Card], rows: list[dict[str, Any]], record: dict[str, dict[str, Any]]
) -> tuple[list[Change], list[tuple[Card, str]]]:
    """Return the changes, and the settings that cards do not have; raise for a value that a card refuses."""
    changes: list[Change] = []
    unsupported: list[tuple[Card, str]] = []
    problems: list[tuple[Card, str]] = []
    declared = select_card_settings(cards, rows)
    for card in cards:
        requested, recorded = declared[card.index], record.get(card.id, {})
        for setting, value in requested.items():
            if setting not in SETTINGS[vendor]:
                unsupported.append((card, f"{setting} is not a setting of {vendor} cards"))
            elif setting in card.unsupported:
                unsupported.append((card, f"{setting} is not supported ({card.unsupported[setting]})"))
            elif reason := find_problem(card, setting, value):
                problems.append((card, f"{setting} {format_value(setting, value)} {reason}"))
            else:
                is_unreadable = setting in UNREADABLE
                before = recorded.get(setting) if is_unreadable else card.current[setting]
                if before != value or is_unreadable:
                    changes.append(Change(card, setting, before, value, is_silent=before == value))
        for setting in set(recorded) - set(requested):
            after, is_reset = card.default.get(setting), setting in RESET_OPTIONS
            before = recorded[setting] if setting in UNREADABLE else card.current.get(setting)
            if setting not in card.unsupported and before != after and (is_reset or after is not None):
                changes.append(Change(card, setting, before, after, is_restored=True))
    if problems:
        raise GpuSettingsError("; ".join(group_by_text(problems)))
    return changes, unsupported


def apply_settings(
    vendor: str,
    rows: list[dict[str, Any]],
    *,
    check_mode: bool = False,
    sysfs: Path = SYSFS,
    record_file: Path = RECORD,
) -> dict[str, Any]:
    """Check all values, then set those that differ; return changes, refused settings and what needs a restart."""
    record: dict[str, dict[str, Any]] = (
        json.loads(record_file.read_text(encoding="utf-8")) if record_file.is_file() else {}
    )
    keys = {key for row in [*rows, *record.values()] for key in row}

    def read_cards() -> list[Card]:
        return read_nvidia_cards(keys) if vendor == "nvidia" else read_amd_cards(keys, sysfs)

    cards = read_cards()
    changes, unsupported = plan_changes(vendor, cards, rows, record)
    applied = [change for change in changes if not change.is_silent]
    if not check_mode:
        declared = select_card_settings(cards, rows)
        # A run that stops halfway leaves a record of all settings that it may have applied.
        intended = list_card_records(vendor, declared, cards)
        write_record(
            record_file, {card.id: {**record.get(card.id, {}), **intended[card.id]} for card in cards}
        )
        refusals = make_changes(vendor, changes)
        unsupported += [(change.card, f"{change.setting}: {reason}") for change, reason in refusals]
        refused = [change for change, reason in refusals if reason]
        applied = [change for change in applied if change not in refused]
        write_record(record_file, list_card_records(vendor, declared, cards))
        if applied:
            cards = read_cards()
            verify_changes(applied, cards)
    needs = [(card, "ECC changes with a restart") for card in cards if card.is_ecc_pending]
    return {
        "changed": bool(applied),
        "changes": [describe_change(change) for change in applied],
        "needs": group_by_text(needs),
        "unsupported": group_by_text(unsupported),
    }


def make_changes(vendor: str, changes: list[Change]) -> list[tuple[Change, str]]:
    """Make the changes; return those that a card refused, with the reason."""
    make_change = make_nvidia_change if vendor == "nvidia" else make_amd_change
    refusals = [(change, reason) for change in changes if (reason := make_change(change))]
    for change, reason in refusals:
        change.card.unsupported[change.setting] = reason
    return refusals


def describe_change(change: Change) -> dict[str, Any]:
    """Return a change as plain values."""
    return {
        "gpu": change.card.index,
        "setting": change.setting,
        "before": format_value(change.setting, change.before),
        "after": format_value(change.setting, change.after),
    }


def list_card_records(
    vendor: str, declared: dict[int, dict[str, Any]], cards: list[Card]
) -> dict[str, dict[str, Any]]:
    """Return the settings that the cards have from here, so that a removed one can be restored."""
    return {
        card.id: {
            key: value
            for key, value in declared[card.index].items()
            if key in SETTINGS[vendor] and key not in card.unsupported
        }
        for card in cards
    }


def write_record(file: Path, entries: dict[str, dict[str, Any]]) -> None:
    file.parent.mkdir(mode=0o755, exist_ok=True)
    file.write_text(json.dumps(entries), encoding="utf-8")


def verify_changes(applied: list[Change], cards: list[Card]) -> None:
    """Raise if a card does not have a value that it accepted."""
    now = {card.id: card.current for card in cards}
    mismatches = [
        (
            change.card,
            f"{change.setting} is {format_value(change.setting, now[change.card.id][change.setting])}",
        )
        for change in applied
        if change.setting not in UNREADABLE and now[change.card.id].get(change.setting) != change.after
    ]
    if mismatches:
        raise GpuSettingsError(f"after the change, {'; '.join(group_by_text(mismatches))}")


def main(arguments: list[str]) -> int:
    """Apply a configuration; exit status 1: no GPU answers (systemd tries again), 2: a value is refused."""
    config = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        sys.stdout.write(json.dumps(apply_settings(config["vendor"], config["settings"])) + "\n")
    except NoAnswerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except GpuSettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

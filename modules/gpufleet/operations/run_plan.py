"""Plan a run, and refuse a misspelt limit before Ansible is asked, which takes seconds to minutes to say so."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpufleet import paths, remote
from gpufleet.boundary import decode_yaml, make_printable, read_text
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.errors import InputError
from gpufleet.fleet.rack_file import is_rack_file_candidate
from gpufleet.nodes import build_ansible_inventory
from gpufleet.remote.plan import THIS_MACHINE, require_known_play, suggest_names
from gpufleet.remote.task_selection import ALL_TASKS

PLUGIN_CONFIGURATION = {"plugin": "gpufleet.fleet.nodes"}
ALWAYS_KNOWN = THIS_MACHINE | {"all", "ungrouped", "new_nodes", "new_blades"}
PLAIN_NAME = re.compile(r"[\w./-]+")


def plan_run(
    root: Path, play: str, limit: str, selection: remote.TaskSelection = ALL_TASKS
) -> remote.RunPlan:
    """Return the plan of a run; raise InputError for a play, a host or a group that the project does not have."""
    require_known_play(root, play)
    refuse_unknown_names(root, limit)
    return remote.plan_playbook_run(root, play, limit, selection)


def refuse_unknown_names(root: Path, limit: str) -> None:
    """Raise InputError for a name that is neither host nor group, if our own files are the whole inventory."""
    terms = remote.parse_host_pattern(limit).terms
    names = {name for term in terms for name in term.names or (term.base_text,)} - ALWAYS_KNOWN
    candidates = sorted(name for name in names if PLAIN_NAME.fullmatch(name))
    if not candidates or (known_names := list_inventory_names(root)) is None:
        return
    if unknown_names := [name for name in candidates if name not in known_names]:
        shown = make_printable(fold_names_to_ranges(unknown_names), 120)
        remedy = suggest_names(unknown_names[0], sorted(known_names))
        raise InputError(f"no host or group {shown!r}", key="--limit", remedy=remedy)


def list_inventory_names(root: Path) -> set[str] | None:
    """Return all hosts and groups; None if Ansible may know more, or the inventory cannot be read."""
    try:
        if not all(map(_is_ours, (root / "inventory").iterdir())):
            return None
        rehearsal = os.environ.get("GPUFLEET_REHEARSAL")
        url = paths.registry_database_url(root)
        inventory = build_ansible_inventory(root, url, rehearsal=rehearsal)
    except (InputError, OSError):
        return None  # Ansible reports it with the run
    return {host.name for host in inventory.hosts} | {*inventory.groups}


def _is_ours(path: Path) -> bool:
    """Return True for a rack file, the plugin's configuration without options, and folders of variables."""
    if path.name.startswith(".") or path.name in {"group_vars", "host_vars"}:
        return True
    if not path.is_file() or path.suffix not in {".yaml", ".yml"}:
        return False
    return is_rack_file_candidate(path) or decode_yaml(read_text(path), str(path)) == PLUGIN_CONFIGURATION

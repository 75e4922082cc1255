"""Tells a shell that does not use a project's running rehearsal how to: its hosts and nodes are nowhere else."""

from __future__ import annotations

import os

from gpufleet import engine, paths
from gpufleet.errors import InputError


def describe_unused_rehearsal() -> str:
    """Return how to use the rehearsals of this project that are up; empty in one, and where there is none."""
    try:
        stacks = () if os.environ.get("GPUFLEET_REHEARSAL") else paths.list_rehearsed_stacks()
    except InputError:  # outside of a project
        return ""
    if not stacks:
        return ""
    return (
        f'a rehearsal of {" and one of ".join(stacks)} is up: eval "$(gpufleet rehearse env -s {stacks[0]})"'
    )


def suggest_sync() -> str:
    """Return what helps where the registry does not exist yet."""
    return "; or ".join(
        filter(None, [f"gpufleet nodes sync -s {_find_only_stack()}", describe_unused_rehearsal()])
    )


def _find_only_stack() -> str:
    """Return the rehearsed stack or the project's only one; a placeholder where there are several."""
    if stack := os.environ.get("GPUFLEET_REHEARSAL"):
        return stack
    try:
        root = paths.find_project_root()
        files = list((root / engine.read_project_setting(root, "stackConfigDir")).glob("Pulumi.*.yaml"))
    except InputError:
        files = []
    return paths.read_stack_name(files[0]) if len(files) == 1 else "STACK"

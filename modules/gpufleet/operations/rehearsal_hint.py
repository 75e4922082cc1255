"""Tells a shell that does not use a project's running rehearsal how to: its hosts and nodes are nowhere else."""

from __future__ import annotations

import os

from gpufleet import paths
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
    return "; or ".join(filter(None, ["gpufleet nodes sync -s STACK", describe_unused_rehearsal()]))

"""A stack's Pulumi state, from the engine or from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpufleet import engine
from gpufleet.boundary import ENGINE_DOCUMENT, read_text


def read_stack_resources(
    stack: str, root: Path, environment: Mapping[str, str], file: Path | None = None
) -> list[engine.StateResource]:
    """Return the resources of a stack's state; ``file`` is a `pulumi stack export` to read instead."""
    where = str(file or "pulumi stack export")
    text = read_text(file, ENGINE_DOCUMENT) if file else _export_state(stack, root, environment)
    with engine.add_source_to_errors(where):
        return list(engine.parse_stack_state(engine.parse_engine_json(text, where)))


def _export_state(stack: str, root: Path, environment: Mapping[str, str]) -> str:
    """Ask the engine for the stack's state."""
    variables = build_engine_environment(environment)
    return engine.run_pulumi(["stack", "export", "--stack", stack], root, variables)


def build_engine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `pulumi` is found: the engine that we built where none is on PATH."""
    variables = dict(environment)
    installation = engine.find_pulumi_engine()
    if installation is not None:
        folders = (variables.get("PATH", os.defpath), str(installation.bin_dir))
        variables["PATH"] = os.pathsep.join(folders)
    return variables

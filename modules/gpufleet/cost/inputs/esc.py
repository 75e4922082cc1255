"""Pulumi ESC: a stack's file names environments, whose values come from a service that is not asked here."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from gpufleet.boundary import make_printable, read_text
from gpufleet.cost.inputs.gate_file import GateFileReader
from gpufleet.cost.inputs.program.allowlist import find_stack_file
from gpufleet.cost.inputs.stack_file import ComparedStackFile

KEY = "environment"

_log = logging.getLogger(__name__)


def find_environment_change(gate: GateFileReader, file: ComparedStackFile) -> tuple[str, ...]:
    """Return why the effect of a branch on the cost is not known: it changes what its stack's file imports.

    A warning says that the values of such environments are not known, also if they do not change.
    """
    own = _read_environments(file.text, str(file.path))
    base = _read_environments(file.base_text, f"{file.path.name} at {gate.base}")
    if own or base:
        gate.warn(_describe(own or base))
    return (
        ()
        if own == base
        else (f"{KEY}: of {make_printable(file.path.name)} changes: what it sets is not known here",)
    )


def warn_about_environments(root: Path, stack: str, config_file: Path | None) -> None:
    """Warn if a stack's file imports values that are not known here."""
    path = config_file or find_stack_file(root, stack)
    if environments := _read_environments(read_text(path) if path.is_file() else "", str(path)):
        _log.warning("%s", _describe(environments))


def _read_environments(text: str, where: str) -> Any:
    """Return what a stack's file imports: names, or environments that it declares itself; None without any."""
    if KEY not in text and "\\" not in text:  # an escape can spell a key in another way
        return None
    from gpufleet.boundary import decode_yaml  # its reader takes a tenth of a second to load

    data = decode_yaml(text, where)
    return (data.get(KEY) or None) if isinstance(data, dict) else None


def _describe(environments: Any) -> str:
    names = environments if isinstance(environments, list) else [environments]
    listed = ", ".join(name if isinstance(name, str) else json.dumps(name, default=str) for name in names)
    return f"values of Pulumi ESC are not known here, and the program gets its defaults: {make_printable(listed)}"

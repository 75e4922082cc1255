"""The kinds of fault, each a class with its setup, its fault at a random moment, and its invariants afterwards."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from faults.kinds.base import Kind


def load_kinds() -> dict[str, type[Kind]]:
    """Return every kind by its name, in the order of their files."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "base"):
            import_module(f"faults.kinds.{path.stem}")
    return {kind.name: kind for kind in _below(Kind) if "name" in vars(kind)}


def _below(kind: type[Kind]) -> list[type[Kind]]:
    return [subclass for child in kind.__subclasses__() for subclass in (child, *_below(child))]

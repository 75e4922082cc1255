"""The rooms that are mutated: where the code of each is, and which test folders mirror it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = "modules/gpufleet"
COLLECTION = "modules/ansible_collections/gpufleet/fleet/plugins"
# The test folders that cover a room beside the one of its name.
ALSO = {
    "boundary": ("fleet",),
    "burnin": ("operations",),
    "catalog": ("sizing",),
    "cli": ("catalog", "operations", "rehearsal"),
    "collection": ("playbooks", "burnin", "operations"),
    "fleet": ("cloud", "sizing"),
    "nodes": ("operations",),
    "operations": ("nodes", "collection"),
    "remote": ("operations",),
}
# What is data for another machine or a program's own text: its tests are elsewhere (hosts, engine).
NEVER = ("nodes/migrations/", "rehearsal/rack/images.py")


@dataclass(frozen=True)
class Room:
    name: str
    files: tuple[str, ...]  # relative to the root
    tests: tuple[str, ...]  # folders under tests/, the room's own first


def rooms(root: Path = ROOT) -> dict[str, Room]:
    """Return every room of the package, and the collection as one more."""
    folders = {path.name: path for path in (root / CODE).iterdir() if (path / "__init__.py").is_file()}
    folders["collection"] = root / COLLECTION
    return {name: Room(name, _files(folders[name], root), _tests(name, root)) for name in sorted(folders)}


def _tests(name: str, root: Path) -> tuple[str, ...]:
    names = (name, *ALSO.get(name, ()))
    return tuple(each for each in names if (root / "tests" / each).is_dir())


def _files(folder: Path, root: Path) -> tuple[str, ...]:
    names = sorted(str(path.relative_to(root)) for path in folder.rglob("*.py"))
    return tuple(name for name in names if not any(part in name for part in NEVER))

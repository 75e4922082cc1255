"""The rooms that are mutated: where the code of each is, and which test folders mirror it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = "modules/gpufleet"
COLLECTION = "modules/ansible_collections/gpufleet/fleet/plugins"
GROUND = "ground"  # the two files beside the rooms
# Folders whose tests need no engine and no booted host, in the order in which their coverage is measured.
TEST_FOLDERS = (
    "boundary", "burnin", "catalog", "cli", "cloud", "collection", "console", "cost", "drivers", "engine",
    "fleet", "nodes", "operations", "playbooks", "rehearsal", "remote", "sizing",
)  # fmt: skip
# What is data for another machine or a program's own text: its tests are elsewhere (hosts, engine).
NEVER = ("nodes/migrations/", "rehearsal/rack/images.py")


@dataclass(frozen=True)
class Room:
    name: str
    files: tuple[str, ...]  # relative to the root
    tests: tuple[str, ...]  # folders under tests/ that are tried first


def rooms(root: Path = ROOT) -> dict[str, Room]:
    """Return every room of the package, and the collection as one more."""
    found = {}
    for folder in sorted(path for path in (root / CODE).iterdir() if (path / "__init__.py").is_file()):
        files = tuple(_files(folder, root))
        if files:
            found[folder.name] = Room(folder.name, files, (folder.name,))
    found["collection"] = Room(
        "collection", tuple(_files(root / COLLECTION, root)), ("collection", "playbooks")
    )
    return found


def _files(folder: Path, root: Path) -> list[str]:
    names = sorted(str(path.relative_to(root)) for path in folder.rglob("*.py"))
    return [name for name in names if not any(part in name for part in NEVER)]

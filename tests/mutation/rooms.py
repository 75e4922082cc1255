"""The rooms that are mutated: where the code of each is, and which test folders mirror it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = "modules/gpufleet"
COLLECTION = "modules/ansible_collections/gpufleet/fleet/plugins"
# What covers a room in addition to the test folder of its name: folders and files under tests/.
ALSO = {
    "boundary": ("engine/test_document.py", "fleet/test_errors.py", "fleet/test_any_input.py"),
    "cli": (
        "operations/test_nodes_cli.py", "catalog/test_prices_cli.py", "cost/test_cli.py", "cost/test_purchase_cli.py",
        "sizing/test_size_cli.py", "rehearsal/test_rehearse_command.py",
    ),
}  # fmt: skip
# Tests that mostly wait for programs which they start: a mutant would take minutes. Only the room cli is tried with
# such tests, as its code runs nowhere else.
WAITING = (
    "burnin/test_module.py", "catalog/prices/refresh/test_cli.py", "catalog/test_prices_cli.py",
    "collection/test_callback.py", "operations/test_nodes_cli.py",
    "collection/test_inventory.py", "cost/ci/", "cost/golden/", "cost/test_purchase_cli.py", "cost/test_cli.py",
    "cost/test_confinement.py", "cost/test_evaluation.py", "cost/test_other_programs.py", "cost/test_programs.py",
    "console/test_gather.py", "engine/test_interrupts.py", "playbooks/", "rehearsal/test_rehearse_command.py",
    "remote/test_run.py", "sizing/compare/test_plots.py", "sizing/test_size_cli.py",
)  # fmt: skip
# What is data for another machine or a program's own text: its tests are elsewhere (hosts, engine).
NEVER = ("nodes/migrations/", "rehearsal/rack/images.py")


@dataclass(frozen=True)
class Room:
    name: str
    files: tuple[str, ...]  # relative to the root
    tests: tuple[str, ...]  # test files relative to the root, the room's own first


def rooms(root: Path = ROOT) -> dict[str, Room]:
    """Return every room of the package, and the collection as one more."""
    folders = {path.name: path for path in (root / CODE).iterdir() if (path / "__init__.py").is_file()}
    folders["collection"] = root / COLLECTION
    return {name: Room(name, _files(folders[name], root), _tests(name, root)) for name in sorted(folders)}


def _tests(name: str, root: Path) -> tuple[str, ...]:
    paths: list[str] = []
    for part in (name, *ALSO.get(name, ())):
        path = root / "tests" / part
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        paths += [str(file.relative_to(root)) for file in files if file.is_file()]
    waiting = () if name == "cli" else tuple(f"tests/{part}" for part in WAITING)
    return tuple(file for file in paths if not file.startswith(waiting))


def _files(folder: Path, root: Path) -> tuple[str, ...]:
    names = sorted(str(path.relative_to(root)) for path in folder.rglob("*.py"))
    return tuple(name for name in names if not any(part in name for part in NEVER))

"""A copy of what a run needs of this environment, for workers: Ansible, ansible-runner, gpufleet itself.

The packages are those installed here, of the same versions, so that a worker does as this machine would. They fit
where Python's version and the processor are the same, which a worker is asked first. The copy is one archive, named
by what is in it.
"""

from __future__ import annotations

import hashlib
import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gpufleet import __file__ as package_file
from gpufleet.errors import EnvironmentFault
from gpufleet.paths import user_cache_folder

# What plays use on the controlling side: Ansible, the runner, and what our action plugins import.
ROOTS = (
    "ansible-core",
    "ansible-runner",
    "clustershell",
    "click",
    "defusedxml",
    "platformdirs",
    "pydantic",
    "ruamel.yaml",
)
EXCLUDED = re.compile(r"(^|/)(__pycache__|tests)/|\.pyc$|^(ansible_test|\.\.)(/|$)")
PLAYBOOK = '#!/bin/sh\nexec "${GPUFLEET_WORKER_PYTHON:-python3}" -m ansible playbook "$@"\n'
PACKAGE_FOLDER = Path(package_file).resolve().parent
# Rooms that no play needs, with their data.
NOT_SENT = ("console", "cost", "engine", "rehearsal", "sizing", "cloud", "cli")
KEEP_BUNDLES = 3


@dataclass(frozen=True)
class WorkerBundle:
    """The archive, and what a worker must be like to use it."""

    archive: Path
    name: str
    python: str
    machine: str


def build_worker_bundle(folder: Path | None = None) -> WorkerBundle:
    """Return the archive of this environment, written when nothing has changed since it was last."""
    packages = find_required_distributions(ROOTS)
    files = [(f"site/{name}", path) for name, path in [*_files(packages), *_project_files()]]
    digest = hashlib.sha256()
    for name, path in files:
        stat = path.stat()
        digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    name = f"worker-{digest.hexdigest()[:16]}"
    folder = folder or user_cache_folder() / "workers"
    archive = folder / f"{name}.tar.gz"
    if not archive.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write(archive, files)
        for old in sorted(folder.glob("worker-*.tar.gz"), key=lambda path: path.stat().st_mtime)[
            :-KEEP_BUNDLES
        ]:
            old.unlink(missing_ok=True)
    return WorkerBundle(
        archive, name, f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine()
    )


def find_required_distributions(roots: tuple[str, ...]) -> list[metadata.Distribution]:
    """Return the installed distributions that the roots need, each once."""
    from packaging.requirements import Requirement

    distributions: dict[str, metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in distributions:
            continue
        try:
            distributions[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError as missing:
            raise EnvironmentFault(f"{name} is not installed", hint=f"pip install {name}") from missing
        needs = map(Requirement, distributions[name].requires or ())
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return [distributions[name] for name in sorted(distributions)]


def _files(packages: list[metadata.Distribution]) -> Iterator[tuple[str, Path]]:
    for package in packages:
        for file in package.files or ():
            path = Path(str(file.locate()))
            if not EXCLUDED.search(str(file)) and path.is_file():
                yield str(file), path


def _project_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of gpufleet and its collection, as plays on a worker use them."""
    for top in (PACKAGE_FOLDER, PACKAGE_FOLDER.parent / "ansible_collections" / "gpufleet"):
        for path in sorted(top.rglob("*")):
            name = path.relative_to(PACKAGE_FOLDER.parent).as_posix()
            room = name.split("/")[1] if top == PACKAGE_FOLDER else ""
            if path.is_file() and room not in NOT_SENT and not EXCLUDED.search(name):
                yield name, path


def _write(archive: Path, files: list[tuple[str, Path]]) -> None:
    """Write the archive to a temporary file and rename it into place."""
    new_archive = archive.with_suffix(f".{id(files)}.new")
    with tarfile.open(new_archive, "w:gz", compresslevel=6) as tar:
        for name, path in files:
            tar.add(path, name, recursive=False)
        tar.add(Path(__file__).with_name("worker.py"), "worker.py")
        script = tarfile.TarInfo("bin/ansible-playbook")
        script.mode, script.size = 0o755, len(PLAYBOOK)
        tar.addfile(script, io.BytesIO(PLAYBOOK.encode()))
    new_archive.replace(archive)

"""Where the project and its local state live.

The project root is the nearest folder upwards that holds Pulumi.yaml. Local state (registry, run
artifacts, rehearsals) lives in ``.gpufleet/`` there, or where ``GPUFLEET_HOME`` points: a rehearsal sets
it to a folder of its own, so that nothing rehearsed can touch the real registry. Built tools (the Pulumi
engine, base images of rehearsed hosts) are the user's, shared by all projects: ``user_cache()``.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpufleet.errors import InputError

STATE_FOLDER = ".gpufleet"
EMBEDDED_PRICES = "embedded"  # GPUFLEET_PRICES says so: no store


def project_root(start: Path | None = None) -> Path:
    """Return the nearest folder at or above ``start`` (default: here) that holds Pulumi.yaml."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    raise InputError("no Pulumi.yaml here or above", where=str(here), remedy="run inside a gpufleet project")


def state_home(root: Path | None = None) -> Path:
    """Return the folder of local state: ``GPUFLEET_HOME``, else ``<root>/.gpufleet``."""
    override = os.environ.get("GPUFLEET_HOME")
    return Path(override) if override else (root or project_root()) / STATE_FOLDER


def make_private_folder(folder: Path, *, existing: bool = False) -> None:
    """Create a folder for its owner alone (0700), whatever the umask; ``existing`` also restricts an existing one.

    Folders above it that are missing are made as private. A folder of another user's stays as it is.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
        one.chmod(0o700)
    if existing and folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def database_url(root: Path | None = None) -> str:
    """Return the registry's SQLAlchemy URL: ``GPUFLEET_DATABASE_URL``, else SQLite in the state home."""
    return os.environ.get("GPUFLEET_DATABASE_URL") or f"sqlite:///{state_home(root) / 'registry.db'}"


def prices_file(root: Path | None = None) -> Path | None:
    """Return the price store's file: ``GPUFLEET_PRICES``, else in the state home.

    None outside a project, and where the embedded prices alone are asked for.
    """
    override = os.environ.get("GPUFLEET_PRICES")
    if override == EMBEDDED_PRICES:
        return None
    if override:
        return Path(override)
    try:
        return state_home(root) / "prices.db"
    except InputError:
        return None


def user_cache() -> Path:
    """Return the user's cache folder for tools that are built once, e.g. the Pulumi engine."""
    import platformdirs  # not for the quick questions, which need no cache

    return Path(platformdirs.user_cache_dir("gpufleet", appauthor=False))


def private_folder(folder: Path) -> Path:
    """Return the folder, made if needed, such that only its owner can enter it, whatever the umask.

    Folders above it that are made on the way are as private. A folder of another user is left as it is.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def private_state(root: Path | None = None) -> Path:
    """Return the folder of local state, made if needed and only its owner's to enter."""
    return private_folder(state_home(root))

"""Where the project and its local state live.

The project root is the nearest folder upwards that holds Pulumi.yaml. Local state (registry, run
artifacts, rehearsals) lives in ``.gpufleet/`` there, or where ``GPUFLEET_HOME`` points: a rehearsal sets
it to a folder of its own, so that nothing rehearsed can touch the real registry. Built tools (the Pulumi
engine, base images of rehearsed hosts) are the user's, shared by all projects: ``user_cache_folder()``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpufleet.errors import InputError

STATE_FOLDER = ".gpufleet"
KERNEL_RULE_FILE = "burn-in-kernel-log.yaml"  # a site's own rules of the kernel log, next to Pulumi.yaml
OVERRIDE_FILE = "burn-in-thresholds.yaml"  # a site's own thresholds, next to Pulumi.yaml
CARD_FILE = "gpu-cards.yaml"  # a site's own cards, next to Pulumi.yaml
RULE_FILE = "burn-in-rules.yaml"  # rules over time that a site only records, next to Pulumi.yaml
WATCH_FILE = "watch.yaml"  # what the watch does at a site, next to Pulumi.yaml
EMBEDDED_PRICES = "embedded"  # value of GPUFLEET_PRICES that selects no store


def find_project_root(start: Path | None = None, remedy: str = "run inside a gpufleet project") -> Path:
    """Return the nearest folder at or above ``start`` (default: here) that holds Pulumi.yaml."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder
    remedy += ", or start one: gpufleet init DIR"
    raise InputError("no Pulumi.yaml in this folder or above", where=str(here), remedy=remedy)


def read_stack_name(file: Path) -> str:
    """Return the stack that a file is of: ``dev`` of ``stacks/Pulumi.dev.yaml``."""
    return file.name.removeprefix("Pulumi.").removesuffix(".yaml")


def refuse_stack_file_name(stack: str, where: str = "-s") -> None:
    """Raise InputError if a stack is given by its file, ``stacks/Pulumi.dev.yaml``, in place of its name."""
    if match := re.fullmatch(r"(?:.*/)?Pulumi\.(.+)\.ya?ml", stack):
        raise InputError(f"{stack} is a file, not a stack's name", where=where, remedy=f"write -s {match[1]}")


def find_given_project(folder: Path | None) -> Path:
    """Return the project of ``--project``, the current one without it."""
    if folder is None:
        return find_project_root(remedy="run inside a Pulumi project, give --project DIR")
    if not (folder / "Pulumi.yaml").is_file():
        raise InputError("has no Pulumi.yaml", where=f"--project {folder}")
    return folder.resolve()


def state_home(root: Path | None = None) -> Path:
    """Return the folder of local state: ``GPUFLEET_HOME``, else ``<root>/.gpufleet``."""
    override = os.environ.get("GPUFLEET_HOME")
    return Path(override) if override else (root or find_project_root()) / STATE_FOLDER


def ensure_private_folder(folder: Path, *, restrict_existing: bool = True) -> Path:
    """Return the folder, created if needed, such that only its owner can enter it (0700), whatever the umask.

    Missing parent folders are created equally private. A folder of another user stays as it is, and so does an
    existing one without ``restrict_existing``.
    """
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
    status = folder.stat()
    if restrict_existing and status.st_uid == os.geteuid() and status.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def registry_database_url(root: Path | None = None) -> str:
    """Return the registry's SQLAlchemy URL: ``GPUFLEET_DATABASE_URL``, else SQLite in the state home."""
    return os.environ.get("GPUFLEET_DATABASE_URL") or f"sqlite:///{state_home(root) / 'registry.db'}"


def find_price_store_file(root: Path | None = None) -> Path | None:
    """Return the price store's file: ``GPUFLEET_PRICES``, else in the state home.

    None outside a project, and if only the embedded prices are selected.
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


def user_cache_folder() -> Path:
    """Return the user's cache folder for tools that are built once, e.g. the Pulumi engine."""
    import platformdirs  # imported late: most verbs need no cache

    return Path(platformdirs.user_cache_dir("gpufleet", appauthor=False))


def list_rehearsed_stacks(root: Path | None = None) -> tuple[str, ...]:
    """Return the stacks of which a rehearsal is up: its facts are the last file that ``rehearse up`` writes."""
    homes = (root or find_project_root()) / STATE_FOLDER / "rehearsal"
    return tuple(sorted(path.parent.name for path in homes.glob("[!.]*/env.json")))


def ensure_state_home(root: Path | None = None) -> Path:
    """Return the folder of local state, created if needed; only its owner can enter it."""
    return ensure_private_folder(state_home(root))

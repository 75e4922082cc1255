"""Unpack a project at a git ref into a folder. The repository is only read."""

from __future__ import annotations

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from gpufleet.errors import EnvironmentFault, InputError

# No index refresh, prompt or fetch. A folder inside the project that looks like a bare repository is not used:
# its settings could name programs to run.
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
SAFE_OPTIONS = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")


def find_git_tree(root: Path, ref: str) -> str:
    """Return git's id of the project folder ``root`` as it was at ``ref``; empty if there was no such folder."""
    prefix = _repository_prefix(root)
    commit = _resolve_commit(root, ref)
    name = f"{commit}:{prefix.rstrip('/')}"
    completed = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return "" if completed.returncode else completed.stdout.decode().strip()


def read_git_archive(root: Path, tree: str) -> bytes:
    """Return the files of a tree that ``find_git_tree`` found, as a tar file; empty if it found none."""
    if not tree:
        return b""
    # In a subfolder git archive would apply the folder twice.
    top = run_git(root, "rev-parse", "--show-toplevel").stdout.decode().strip()
    archived = run_git(Path(top), "archive", "--format=tar", tree)
    if archived.returncode:
        raise EnvironmentFault(f"git archive failed: {archived.stderr.decode(errors='replace').strip()}")
    return archived.stdout


def unpack_git_archive(content: bytes, folder: Path) -> None:
    """Unpack what ``read_git_archive`` returns."""
    if not content:
        return
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        archive.extractall(folder, filter=_keep_inside)  # noqa: S202 - the filter keeps every member inside


def _keep_inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Skip members that reach outside the folder, such as a link to a virtual environment."""
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _repository_prefix(root: Path) -> str:
    """Return the project's folder within its repository, empty at the top."""
    completed = run_git(root, "rev-parse", "--show-prefix")
    if completed.returncode:
        raise InputError(
            "not in a git repository",
            where=str(root),
            remedy="compare previews with --preview instead of --base",
        )
    return completed.stdout.decode().strip()


def _resolve_commit(root: Path, ref: str) -> str:
    completed = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if completed.returncode:
        raise InputError(
            f"no commit named {ref!r}",
            where="--base",
            remedy="give a branch, tag or commit that `git log` shows",
        )
    return completed.stdout.decode().strip()


def run_git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, reading only."""
    try:
        return subprocess.run(
            ["git", *SAFE_OPTIONS, "-C", str(root), *arguments],
            capture_output=True,
            check=False,
            env=os.environ | GIT_ENVIRONMENT,
            timeout=60,
        )
    except FileNotFoundError:
        raise EnvironmentFault("git is not installed", hint="install git, or use --preview") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"git {arguments[0]} did not answer within 60 s") from None

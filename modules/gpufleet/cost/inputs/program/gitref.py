"""The project as it was at a git ref, unpacked beside the working tree. Git is only ever read."""

from __future__ import annotations

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from gpufleet.errors import EnvironmentFault, InputError

# Read without refreshing the index, asking, or fetching; and a folder that somebody made to look like a bare
# repository, with settings of its own that name programs, is none.
QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
SAFE = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")


def unpack(root: Path, ref: str, into: Path) -> None:
    """Unpack the project folder ``root`` as it was at ``ref``; a folder not there yet unpacks to nothing."""
    prefix = _repository_prefix(root)
    commit = _commit(root, ref)
    tree = f"{commit}:{prefix.rstrip('/')}"
    if run_git(root, "cat-file", "-e", tree).returncode:
        return
    # From a subfolder git archive would take the folder twice, once as tree and once as place.
    top = run_git(root, "rev-parse", "--show-toplevel").stdout.decode().strip()
    packed = run_git(Path(top), "archive", "--format=tar", tree)
    if packed.returncode:
        raise EnvironmentFault(f"git archive failed: {packed.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(into, filter=_inside)  # noqa: S202 - the filter keeps every member inside


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Leave out what would reach outside the folder, such as a link to somebody's virtual environment."""
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _repository_prefix(root: Path) -> str:
    """Return the project's folder within its repository, empty at the top."""
    asked = run_git(root, "rev-parse", "--show-prefix")
    if asked.returncode:
        raise InputError(
            "not in a git repository",
            where=str(root),
            remedy="compare previews with --preview instead of --base",
        )
    return asked.stdout.decode().strip()


def _commit(root: Path, ref: str) -> str:
    asked = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if asked.returncode:
        raise InputError(
            f"no commit named {ref!r}",
            where="--base",
            remedy="give a branch, tag or commit that `git log` shows",
        )
    return asked.stdout.decode().strip()


def run_git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, reading only."""
    try:
        return subprocess.run(
            ["git", *SAFE, "-C", str(root), *arguments],
            capture_output=True,
            check=False,
            env=os.environ | QUIET,
            timeout=60,
        )
    except FileNotFoundError:
        raise EnvironmentFault("git is not installed", hint="install git, or use --preview") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"git {arguments[0]} did not answer within 60 s") from None

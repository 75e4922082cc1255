"""Read a project's repository: the files at a git ref, and those that git tracks. It is only read."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, InputError

# No index refresh, prompt or fetch. A folder inside the project that looks like a bare repository is not used:
# its settings could name programs to run.
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
SAFE_OPTIONS = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")


def find_git_tree(root: Path, ref: str) -> str:
    """Return git's id of the project folder ``root`` as it was at ``ref``; empty if there was no such folder."""
    prefix = _repository_prefix(root)
    commit = _resolve_commit(root, ref)
    name = f"{commit}:{prefix}"  # its last / refuses a file or a link of this name
    completed = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return "" if completed.returncode else completed.stdout.decode().strip()


def read_git_archive(root: Path, tree: str) -> bytes:
    """Return the files of a tree that ``find_git_tree`` found, as a tar file; empty if it found none."""
    if not tree:
        return b""
    # In a subfolder git archive would apply the folder twice.
    top = run_git(root, "rev-parse", "--show-toplevel").stdout.decode().strip()
    return read_git(Path(top), "archive", "--format=tar", tree)


def read_git_file(root: Path, tree: str, name: str) -> bytes | None:
    """Return a file at the top of a tree that ``find_git_tree`` found, None if it is not there."""
    if not tree:
        return None
    shown = run_git(root, "cat-file", "blob", f"{tree}:{name}")
    return None if shown.returncode else shown.stdout


def list_tracked_files(folder: Path) -> list[str]:
    """Return what git tracks in a folder and in submodules that are checked out: files, links, other submodules."""
    return sorted(set(list_git_names(folder, "ls-files", "-z", "--cached", "--recurse-submodules")))


def is_tracked(top: Path, path: Path) -> bool:
    """Return whether git tracks a path, or anything in it."""
    return bool(read_git(top, "--literal-pathspecs", "ls-files", "-z", "--", str(path)))


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


def list_git_names(root: Path, *arguments: str) -> list[str]:
    """Return the names that a git command prints with ``-z``."""
    return [os.fsdecode(name) for name in read_git(root, *arguments).split(b"\0") if name]


def read_git(root: Path, *arguments: str) -> bytes:
    """Return what a git command prints; raise EnvironmentFault if it fails: an error is not an empty answer."""
    completed = run_git(root, *arguments)
    if completed.returncode:
        lines = completed.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        command = next(each for each in arguments if not each.startswith("-"))
        raise EnvironmentFault(
            f"git {command} failed in {make_printable(str(root))}: {make_printable(lines[0])}",
            hint=f"run git -C {shlex.quote(str(root))} {shlex.join(arguments)}",
        )
    return completed.stdout


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

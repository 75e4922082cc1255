"""Read a project's repository: the files at a git ref, and those that git tracks. It is only read."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, InputError

# No index refresh, prompt or fetch. A folder inside the project that looks like a bare repository is not used:
# its settings could name programs to run.
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
SAFE_OPTIONS = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
BATCH_BYTES = 64 << 20
EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE = "100755", "120000", "160000"


class GitFile(NamedTuple):
    """A file or a link at a commit: its path in the project, git's mode, and its content or where it leads."""

    path: str
    mode: str
    content: bytes


class GitEntry(NamedTuple):
    """A file or a link of a tree: its path, git's mode and id, its size in bytes, and its repository's folder."""

    path: str
    mode: str
    object_id: str
    size: int
    root: Path


def find_git_tree(root: Path, ref: str) -> str:
    """Return git's id of the project folder ``root`` as it was at ``ref``; empty if there was no such folder."""
    prefix = _repository_prefix(root)
    commit = _resolve_commit(root, ref)
    name = f"{commit}:{prefix}"  # its last / refuses a file or a link of this name
    completed = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    return "" if completed.returncode else completed.stdout.decode().strip()


def list_git_files(root: Path, tree: str) -> list[GitEntry]:
    """Return the files of a tree that ``find_git_tree`` found, none if it found none.

    They are as the working tree has them: with what ``export-ignore`` hides from ``git archive``, and with the
    submodules that are checked out in ``root``.
    """
    return list(_iterate_entries(root, tree, "")) if tree else []


def _iterate_entries(root: Path, tree: str, prefix: str) -> Iterator[GitEntry]:
    submodules = []
    for line in list_git_names(root, "ls-tree", "-r", "-l", "-z", "--full-tree", tree):
        fields, _, path = line.partition("\t")
        mode, _, object_id, size = fields.split()
        if mode == SUBMODULE_MODE:
            submodules.append((path, object_id))
        else:
            yield GitEntry(f"{prefix}{path}", mode, object_id, int(size), root)
    for path, commit in submodules:
        if _has_commit(root / path, commit):
            yield from _iterate_entries(root / path, commit, f"{prefix}{path}/")


def _has_commit(folder: Path, commit: str) -> bool:
    """Return whether a submodule is checked out in its own repository, which has that commit."""
    if folder.is_symlink() or not os.path.lexists(folder / ".git"):
        return False
    return run_git(folder, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def read_git_files(entries: Iterable[GitEntry]) -> Iterator[GitFile]:
    """Yield files with their contents: one process of git reads up to ``BATCH_BYTES``, so that memory is bounded."""
    batch: list[GitEntry] = []
    size = 0
    for entry in entries:
        if batch and (size + entry.size > BATCH_BYTES or entry.root != batch[0].root):
            yield from _read_batch(batch)
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    yield from _read_batch(batch) if batch else ()


def _read_batch(entries: list[GitEntry]) -> Iterator[GitFile]:
    root = entries[0].root
    request = "".join(f"{entry.object_id}\n" for entry in entries).encode()
    output, start = read_git(root, "cat-file", "--batch", stdin=request), 0
    for entry in entries:
        end = output.index(b"\n", start)
        name, _, size = output[start:end].decode().rpartition(" ")
        if name != f"{entry.object_id} blob":
            raise EnvironmentFault(
                f"git has no file {entry.object_id} of {make_printable(str(root))}", hint="run git fsck"
            )
        start = end + 1
        yield GitFile(entry.path, entry.mode, output[start : start + int(size)])
        start += int(size) + 1


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


def read_git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return what a git command prints; raise EnvironmentFault if it fails: an error is not an empty answer."""
    completed = run_git(root, *arguments, stdin=stdin)
    if completed.returncode:
        lines = completed.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        command = next(each for each in arguments if not each.startswith("-"))
        raise EnvironmentFault(
            f"git {command} failed in {make_printable(str(root))}: {make_printable(lines[0])}",
            hint=f"run git -C {shlex.quote(str(root))} {shlex.join(arguments)}",
        )
    return completed.stdout


def run_git(root: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, reading only."""
    try:
        return subprocess.run(
            ["git", *SAFE_OPTIONS, "-C", str(root), *arguments],
            capture_output=True,
            input=stdin,
            check=False,
            env=os.environ | GIT_ENVIRONMENT,
            timeout=60,
        )
    except FileNotFoundError:
        raise EnvironmentFault("git is not installed", hint="install git, or use --preview") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"git {arguments[0]} did not answer within 60 s") from None

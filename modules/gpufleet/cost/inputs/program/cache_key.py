"""The key of an evaluated program: a digest of everything that its confined evaluation can read.

That is the git tree of the folder that it sees (the working tree's only if it is clean: what git does not track is not
shown), the stack's configuration, the allowed environment variables, the packages of the Python that runs it, the
sources of this package that take part, and the day. A program without a key is evaluated every time.
"""

# ruff: noqa: PTH112, PTH114, PTH118, PTH123 - thousands of files; a Path takes longer than reading one

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import run_git
from gpufleet.cost.inputs.program.node_packages import describe_installed_packages, is_node_program
from gpufleet.cost.inputs.program.program_runtime import describe_go, read_program_runtime
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import EnvironmentFault

FORMAT = 1
SOURCE_FILES, SOURCE_BYTES = 5_000, 64 << 20
BYTECODE = "__pycache__"


class TooManyFilesError(Exception):
    """More files than are worth reading to avoid an evaluation."""


class Installation:
    """What all programs of one evaluation share: Python, packages, variables, this package's sources and the day."""

    def __init__(self, python: Path | None, variables: Mapping[str, str]) -> None:
        """``python`` is the project's own, ``variables`` are those of the process that evaluates it."""
        self.python = python
        self._variables = variables

    @cached_property
    def digest(self) -> str:
        """The digest of all of it; reading the packages takes 20 ms and more."""
        parts = {
            "format": FORMAT,
            "variables": allowlist.select_allowed_variables(self._variables),
            "sources": _hash_folder(Path(__file__).parent),
            "packages": _describe_packages(self.python),
            "python": [
                sys.version,
                platform.system(),
                platform.machine(),
                str(self.python or sys.executable),
            ],
            "day": time.strftime("%Y-%m-%d %z"),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def make_cache_key(program: StackProgram, installation: Installation) -> str | None:
    """Return the key of a program, None if it may read what no key covers."""
    if program.trusted:
        return None
    try:
        tree = program.tree
        tree = _describe_checkout(program) if tree is None else tree and _describe_tree(program)
        if not tree:
            return None
        parts = {
            "installation": installation.digest,
            "tree": tree,
            "stack": program.stack,
            "is_other_commit": bool(program.label),
            "config": _hash_config_file(program),
        }
        if is_node_program(program):
            parts["packages"] = describe_installed_packages(program)
            if parts["packages"] is None:
                return None
        if runtime := read_program_runtime(program, "go"):
            parts["go"] = describe_go(os.environ)
            if runtime.binary or not parts["go"]:
                return None
    except (OSError, EnvironmentFault, TooManyFilesError):  # also without git, or if git takes too long
        return None
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _hash_config_file(program: StackProgram) -> str | None:
    """Return the digest of the stack's file, None if it is in the tree: another commit's, or a link."""
    if program.config_text is not None:
        return hashlib.sha256(program.config_text.encode()).hexdigest()
    path = program.config_file
    if path is None and program.tree is None:
        path = allowlist.find_stack_file(program.root, program.stack)
        path = path if path.is_file() and not path.is_symlink() else None
    return _hash_file(path) if path else None


def _describe_checkout(program: StackProgram) -> str | None:
    """Return what a program in the working tree sees of it, None unless all of that is committed."""
    root = program.root.resolve()
    folder = allowlist.find_visible_folder(root)
    status = run_git(
        folder, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=none", "--", "."
    )  # fmt: skip
    tree = run_git(folder, "rev-parse", "HEAD:./")
    if status.returncode or tree.returncode or status.stdout or not _is_checked_out(folder):
        return None
    return json.dumps([str(root.relative_to(folder)), tree.stdout.decode().strip()])


def _describe_tree(program: StackProgram) -> str:
    """Return what a program at another commit sees."""
    root = program.root.resolve()
    folder = allowlist.find_visible_folder(root)
    return json.dumps([str(root.relative_to(folder)), program.visible_tree])


def _is_checked_out(folder: Path) -> bool:
    """Return whether git compares every tracked file with the folder's, and none is a submodule or a link outside."""
    listed = run_git(folder, "ls-files", "-v", "-s", "-z")
    entries = [entry for entry in listed.stdout.split(b"\0") if entry]
    if listed.returncode or not all(entry.startswith((b"H 100", b"H 120")) for entry in entries):
        return False
    links = [
        os.path.join(folder, os.fsdecode(entry.partition(b"\t")[2]))
        for entry in entries
        if entry.startswith(b"H 120")
    ]
    # A link may be a loop: Path.resolve() raises RuntimeError for one, os.path.realpath() returns its path.
    return all(Path(os.path.realpath(link)).is_relative_to(folder) for link in links)


def _describe_packages(python: Path | None) -> list[str]:
    """Return the installed packages that a program can import: their records, and the files of editable installs."""
    if python:
        folder = python.parents[1]
        installation = python.resolve().parents[1]
        places = [*folder.glob("lib*/python3*/*-packages"), *installation.glob("lib*/python3*/*-packages")]
        places += allowlist.find_editable_folders(python)
        settings = [_hash_file(folder / "pyvenv.cfg"), str(python.resolve())]
    else:
        places = [path for path in allowlist.find_interpreter_paths() if path.exists()]
        settings = [sys.prefix, sys.base_prefix]
    built_in = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "scripts")}
    roots = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    described = []
    for place in sorted(places):
        if str(place) in built_in | roots or place.name == "lib-dynload":
            continue
        described.append(
            f"{place.name}:{_hash_site_folder(place) if place.name in allowlist.SITE_FOLDERS else _hash_folder(place)}"
        )
    return [*settings, *described]


def _hash_site_folder(folder: Path) -> str:
    """Return a digest of the installed packages: an installer's record has the digests of most files."""
    digest, records, files = hashlib.sha256(), [], []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        digest.update(f"{entry.name}\n".encode())
        if entry.name.endswith((".dist-info", ".egg-info")) and entry.is_dir():
            for name in ("RECORD", "METADATA", "PKG-INFO", "direct_url.json"):
                with suppress(FileNotFoundError), open(f"{entry.path}/{name}", "rb") as file:
                    records.append(file.read())
        elif entry.is_file():
            files.append(entry)
    all_records = b"\n".join(records)
    digest.update(all_records)
    for entry in files:  # a compiled module may have 40 MB
        if f"\n{entry.name},sha256=".encode() not in all_records:
            digest.update(_hash_file(Path(entry.path)).encode())
    return digest.hexdigest()


def _hash_folder(path: Path) -> str:
    """Return a digest of the names and contents of all files of a folder, without bytecode; or of one file."""
    digest, count, size = hashlib.sha256(), 0, 0
    for name in _walk(str(path)):
        with suppress(FileNotFoundError, IsADirectoryError), open(name, "rb", opener=_open_at_once) as file:
            content = file.read(SOURCE_BYTES)
            count, size = count + 1, size + len(content)
            if count > SOURCE_FILES or size >= SOURCE_BYTES:
                raise TooManyFilesError
            digest.update(
                f"{name.removeprefix(str(path))}\n{len(content)}\n".encode(errors="surrogateescape")
            )
            digest.update(content)
    return digest.hexdigest()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe without a writer is empty."""
    return os.open(path, flags | os.O_NONBLOCK)


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _walk(path: str) -> Iterator[str]:
    """Return a file, or all files and links in a folder without bytecode, in a fixed order."""
    if not os.path.isdir(path) or os.path.islink(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name != BYTECODE)
        yield from (f"{folder}/{name}" for name in sorted(files))
        yield from (f"{folder}/{name}" for name in folders if os.path.islink(f"{folder}/{name}"))

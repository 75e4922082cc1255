"""What a confined program sees of its project: files that git tracks, in a folder made for it.

Another commit is unpacked there, the working tree is copied. Links are written as they are and never followed, and a
file over ``COPIED_BYTES`` is shown in its place instead of copied. Python's bytecode of a copied source comes along.
"""

# ruff: noqa: PTH100, PTH103, PTH114, PTH115, PTH208, PTH211 - thousands of files; open folders

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import (
    EXECUTABLE_MODE,
    LINK_MODE,
    GitFile,
    list_git_names,
    list_tracked_files,
)
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import EnvironmentFault, InputError

COPIED_BYTES = 1 << 20
BYTECODE_FOLDER, BYTECODE = "__pycache__", re.compile(r"(.+)\.cpython-\d+\.pyc")
SKIPPED_FOLDERS = (BYTECODE_FOLDER, "node_modules")  # installed packages are shown in their place, not copied
MAX_FILES = 100_000  # of a project without git
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class ProjectView:
    """A project at ``folder`` as its program sees it: the folder ``view``, and ``parts`` of ``folder`` itself."""

    folder: Path
    view: Path
    parts: tuple[str, ...] = ()


class ViewWriter:
    """Writes files into an empty folder of ours. Links come last, so that nothing is written through one."""

    def __init__(self, folder: Path) -> None:
        self._top = str(folder)
        self._folders: set[str] = {""}
        self._links: dict[str, str] = {}

    def add_folder(self, path: str) -> str:
        """Make a folder and those above it, and return its place."""
        place = f"{self._top}/{path}"
        if path not in self._folders:
            os.makedirs(place, exist_ok=True)
            self._folders.add(path)
        return place

    def add_file(self, path: str, content: bytes | memoryview = b"", *, is_executable: bool = False) -> str:
        """Write a file, and return its place."""
        above, _, name = path.rpartition("/")
        place = f"{self.add_folder(above)}/{name}"
        mode = 0o755 if is_executable else 0o644
        descriptor = os.open(
            place, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, mode
        )
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)
        return place

    def add_link(self, path: str, text: str) -> None:
        self._links[path] = text

    def write_links(self) -> None:
        for path, text in self._links.items():
            above, _, name = path.rpartition("/")
            place = self.add_folder(above)
            with suppress(FileExistsError):
                os.symlink(text, f"{place}/{name}")
        self._links = {}


def write_git_files(files: Iterable[GitFile], view: Path, places: Mapping[str, Path] | None = None) -> None:
    """Write what ``gitref.read_git_files`` yields, without credentials; links stay text.

    ``places`` are made empty for what is shown there in addition.
    """
    writer = ViewWriter(view)
    for file in files:
        if not is_inside(file.path) or allowlist.is_secret(file.path):
            continue
        if file.mode == LINK_MODE:
            writer.add_link(file.path, os.fsdecode(file.content))
        else:
            writer.add_file(file.path, file.content, is_executable=file.mode == EXECUTABLE_MODE)
    for name, place in (places or {}).items():
        _add_place(writer, place, name)
    writer.write_links()


@contextmanager
def explain_full_disk() -> Iterator[None]:
    """Turn an error of the folder that is written to into one line."""
    try:
        yield
    except OSError as error:
        problem = f"the files of the Pulumi program could not be copied: {error.strerror or error}"
        raise EnvironmentFault(
            problem, hint="free space in /dev/shm or in the folder for temporary files"
        ) from None


def enter_folder(path: Path, folder: Path) -> Path:
    """Return a path without the links on the way into ``folder``; those in it, which may be a branch's, stay."""
    parts = Path(os.path.abspath(path)).parts
    for count in range(1, len(parts) + 1):
        place = Path(os.path.realpath(Path(*parts[:count])))
        if place.is_relative_to(folder):
            return place.joinpath(*parts[count:])
    return Path(os.path.realpath(path))


def select_files(
    folder: Path, stack_file: Path | None, visible: Iterable[Path]
) -> tuple[list[str], list[Path]]:
    """Return the files of ``folder`` to copy, and what of ``visible`` is to be shown in addition.

    A path of Python's that git tracks is shown as any other file of the project. The stack's file is shown in any case,
    because the user named it or the stack.
    """
    others = [*visible]
    names = set(list_visible_files(folder))
    if stack_file and stack_file.is_relative_to(folder):
        names.add(str(stack_file.relative_to(folder)))
    elif stack_file and stack_file.exists():
        others.append(stack_file)
    return sorted(names), select_additions(folder, names, others)


def select_additions(folder: Path, names: set[str], others: Iterable[Path]) -> list[Path]:
    """Return which of ``others`` are to be shown in addition to the files ``names`` of a folder."""
    folders = {"", *(above for name in names for above in _list_folders(name))}
    kept = []
    for path in others:
        inside = str(path.relative_to(folder)) if path.is_relative_to(folder) else None
        is_covered = inside is not None and (
            inside == "." or inside in names | folders or not names.isdisjoint(_list_folders(inside))
        )
        kept += [] if is_covered else [path]
    return kept


def list_visible_files(folder: Path) -> list[str]:
    """Return the files and links of ``folder`` that the program of a project in it may see.

    They are what git tracks; without a repository all of the folder but virtual environments. Credentials are left out.
    """
    repository = allowlist.find_repository(folder)
    is_in_git = repository is not None and allowlist.is_apart_from_home(repository)
    names = list_tracked_files(folder) if is_in_git else _walk_folder(folder)
    return [name for name in names if not allowlist.is_secret(name)]


def _list_folders(path: str) -> list[str]:
    """Return the folders above a path, the nearest first."""
    folders = []
    while path := path.rpartition("/")[0]:
        folders.append(path)
    return folders


def measure_files(folder: Path, names: Iterable[str]) -> int:
    """Return how many bytes a copy takes."""
    total = 0
    for name in names:
        with suppress(OSError):
            size = os.lstat(f"{folder}/{name}").st_size
            total += size if size <= COPIED_BYTES else 0
    return total


def copy_files(
    folder: Path,
    names: Iterable[str],
    view: Path,
    others: Iterable[Path] = (),
    packages: Iterable[Path] = (),
) -> ProjectView:
    """Copy files of ``folder`` to ``view``; make empty places there for ``others`` that are shown in ``folder``.

    The place of one of ``packages`` is a folder, even if that is a link in ``folder``.
    """
    writer, parts = ViewWriter(view), []
    by_folder: dict[str, list[str]] = defaultdict(list)
    for path in names:
        above, _, name = path.rpartition("/")
        by_folder[above].append(name)
    top = os.open(folder, OPEN_FOLDER)
    try:
        for above, entries in by_folder.items():
            with suppress(FileNotFoundError, NotADirectoryError):  # removed, or a link now
                parts += _copy_folder(top, above, entries, writer)
    finally:
        os.close(top)
    for other in others:
        if other.is_relative_to(folder):
            _add_place(writer, other, str(other.relative_to(folder)))
    for package in packages:
        if package.is_relative_to(folder):
            writer.add_folder(str(package.relative_to(folder)))
    writer.write_links()
    return ProjectView(folder, view, tuple(parts))


def _add_place(writer: ViewWriter, path: Path, name: str) -> None:
    """Make an empty folder or file for something else to be mounted there; a link is the same link."""
    if path.is_symlink():
        writer.add_link(name, os.readlink(path))
    elif path.is_dir():
        writer.add_folder(name)
    else:
        writer.add_file(name)


def _copy_folder(top: int, above: str, entries: list[str], writer: ViewWriter) -> list[str]:
    """Copy entries of one folder; return the paths of those that are too large."""
    here, large = _open_folder(top, above), []
    sources: dict[str, tuple[str, os.stat_result]] = {}
    prefix = f"{above}/" if above else ""
    try:
        for name in entries:
            try:
                descriptor = os.open(
                    name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here
                )
            except FileNotFoundError:  # removed in the working tree
                continue
            except OSError:
                with suppress(OSError):  # a socket, or a file without permission
                    writer.add_link(prefix + name, os.readlink(name, dir_fd=here))
                continue
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):  # a submodule that is not checked out
                    writer.add_folder(prefix + name)
                elif stat.S_ISREG(status.st_mode):
                    is_large = status.st_size > COPIED_BYTES
                    content = b"" if is_large else os.read(descriptor, COPIED_BYTES)
                    place = writer.add_file(
                        prefix + name, content, is_executable=bool(status.st_mode & 0o100)
                    )
                    sources[name] = place, status
                    large += [prefix + name] if is_large else []
            finally:
                os.close(descriptor)
        if any(name.endswith(".py") for name in sources):
            _copy_bytecode(here, prefix, sources, writer)
    finally:
        os.close(here)
    return large


def _copy_bytecode(
    here: int, prefix: str, sources: dict[str, tuple[str, os.stat_result]], writer: ViewWriter
) -> None:
    """Copy the bytecode that Python would use for copied sources: it names their time and size."""
    try:
        cache = os.open(BYTECODE_FOLDER, OPEN_FOLDER, dir_fd=here)
    except OSError:
        return
    try:
        for name in os.listdir(cache):
            match = BYTECODE.fullmatch(name)
            place, status = sources.get(f"{match[1]}.py", ("", None)) if match else ("", None)
            if status is None:
                continue
            content = _read_file(cache, name)
            times = int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF
            if content[4:16] == b"".join(number.to_bytes(4, "little") for number in (0, *times)):
                writer.add_file(f"{prefix}{BYTECODE_FOLDER}/{name}", content)
                os.utime(place, ns=(status.st_mtime_ns, status.st_mtime_ns))
    finally:
        os.close(cache)


def _read_file(folder: int, name: str) -> bytes:
    """Return a file of an open folder, empty for a link or anything else that cannot be read."""
    with suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.read(descriptor, 16 * COPIED_BYTES)
        finally:
            os.close(descriptor)
    return b""


def _open_folder(top: int, path: str) -> int:
    """Open a folder below an open one; raise OSError where a part of it is a link."""
    current = os.dup(top)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, OPEN_FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = below
    return current


def _walk_folder(folder: Path) -> Iterator[str]:
    """Yield the files and links of a folder without a repository; raise InputError if they are too many."""
    if not allowlist.is_apart_from_home(folder):
        remedy = "put the project into a folder of its own, or make it a git repository"
        raise InputError("the project is a home folder", where=str(folder), remedy=remedy)
    count = 0
    for place, folders, files in os.walk(folder):
        above = os.path.relpath(place, folder)
        prefix = "" if above == "." else f"{above}/"
        if prefix and "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if name not in SKIPPED_FOLDERS and not allowlist.is_secret(prefix + name)
        ]
        links = [name for name in folders if os.path.islink(f"{place}/{name}")]
        count += len(files)
        if count > MAX_FILES:
            remedy = "make it a git repository: its program sees the files that git tracks"
            raise InputError(f"has more than {MAX_FILES:,} files", where=str(folder), remedy=remedy)
        yield from (prefix + name for name in (*files, *links))


def is_inside(path: str) -> bool:
    """Return whether a path of an archive stays inside its folder."""
    return bool(path) and not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


def find_untracked_file(program: StackProgram, text: str) -> str:
    """Return a file that a program's error names and that git does not track, so that it was not there; or "".

    A module is named without its ending. Credentials, and folders that hold some, are never suggested.
    """
    if program.trusted or program.tree is not None or not allowlist.find_repository(program.root.resolve()):
        return ""
    untracked = ("ls-files", "-z", "--others")
    listed = list_git_names(program.root, *untracked, "--directory", "--no-empty-directory")
    for path in sorted(name.rstrip("/") for name in listed):
        name = path.rpartition("/")[2]
        names = (name, name.removesuffix(".py").removesuffix(".ts").removesuffix(".js"))
        is_named = any(re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", text) for each in names)
        if not is_named:
            continue
        files = list_git_names(program.root, "--literal-pathspecs", *untracked, "--", path)
        if not any(allowlist.is_secret(file) for file in files):
            return path
    return ""

"""The file system of a confined call: a new root from an explicit list of what it may see.

Nothing is shown and hidden again. What a project brings is in a folder that the caller made (``view``), and in single
files, which are opened part by part without following a link. A mount goes to an open descriptor, not to a path.
"""

# System calls take paths as text or bytes, and /tmp is the new file system's own.
# ruff: noqa: PTH103, PTH110, PTH112, PTH114, PTH115, PTH211

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .system_call import (
    MOUNT_SETATTR,
    MOVE_MOUNT,
    OPEN_TREE,
    call_library,
    call_system,
    pivot_root,
    write_setting,
)

MS_NOSUID, MS_NODEV, MS_NOEXEC, MNT_DETACH = 2, 4, 8, 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 1, 2
AT_EMPTY_PATH, AT_RECURSIVE, OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 0x1000, 0x8000, 1, os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH = 4, 0x40

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
SETTINGS = (
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/timezone",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")
SCRATCH_BYTES = 256 << 20  # of all that a program writes


class ConfinementError(Exception):
    """A step of the confinement failed: nothing may run."""


def make_root(bounds: dict[str, Any]) -> None:
    """Make a file system that shows what the bounds name, read-only, and leave the old one.

    Raise ConfinementError with the step that failed.
    """
    new, folder = f"{bounds['folder']}/root", bounds["folder"]
    with _step("make a new root"):
        root = _make_top(new)
    _show_all(root, (*SYSTEM, *SETTINGS))
    project = bounds["project"]
    covered = bounds["covered"]
    outer = [path for path in bounds["visible"] if covered and f"{covered}/".startswith(f"{path}/")]
    _show_all(root, outer)
    if covered:
        with _step("cover the project"):
            _mount_tmpfs(_open_below(root, covered, make="folder"), "mode=0755,size=1m,nr_inodes=4096")
    if project:
        with _step("show the project's files"):
            _show_project(root, **project)
    _show_all(root, [path for path in bounds["visible"] if path not in outer])
    for source, target in bounds["mounted"]:
        with _step(f"show {source}"):
            _attach(
                os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW),
                _open_below(root, target, make="folder"),
            )
    with _step("make a folder to write to"):
        scratch = _open_below(root, folder, make="folder")
        _mount_tmpfs(scratch, f"mode=0700,size={SCRATCH_BYTES},nr_inodes=16384")
        for name in ("home", "tmp"):
            os.close(_open_below(root, f"{folder}/{name}", make="folder"))
    for path in bounds.get("writable", ()):
        with _step(f"show {path} to write to"):
            source = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
            _attach(source, _open_below(root, path, make="folder"), is_read_only=False)
    with _step("show the processes of its own"):
        _mount_proc(root)
    if covered:
        with _step("make the project read-only"):
            _set_read_only(_open_below(root, covered), recursive=False)
    with _step("leave the old root"):
        _set_read_only(root, recursive=False)
        _pivot(root)


@contextmanager
def _step(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ConfinementError(f"{name}: {error}") from error


def _make_top(new: str) -> int:
    """Return the new root: empty but for /tmp and a few devices."""
    os.makedirs(new, exist_ok=True)
    call_library(
        "mount",
        b"tmpfs",
        os.fsencode(new),
        b"tmpfs",
        MS_NOSUID | MS_NODEV,
        b"mode=0755,size=16m,nr_inodes=16384",
    )
    root = os.open(new, os.O_PATH | os.O_DIRECTORY)
    _mount_tmpfs(_open_below(root, "tmp", make="folder"), f"mode=1777,size={SCRATCH_BYTES},nr_inodes=16384")
    for name in DEVICES:
        device = os.open(f"/dev/{name}", os.O_PATH)
        _attach(
            device, _open_below(root, f"dev/{name}", make="file")
        )  # read-only is its mode; it can be written to
    os.symlink("/proc/self/fd", f"{new}/dev/fd")
    return root


def _show_all(root: int, paths: Iterable[str]) -> None:
    for path in paths:
        with _step(f"show {path}"):
            _show(root, path)


def _show(root: int, path: str) -> None:
    """Show a path of the system or the caller at the same place; one that is not there is left out."""
    if os.path.islink(path):
        above, name = os.path.split(path)
        folder = _open_below(root, above, make="folder")
        text = os.readlink(path)
        with suppress(FileExistsError):  # the project's view has it
            os.symlink(text, name, dir_fd=folder)
        os.close(folder)
    elif os.path.exists(path):
        source = os.open(path, os.O_PATH)
        _attach(source, _open_below(root, path, make="folder" if os.path.isdir(path) else "file"))


def _show_project(root: int, folder: str, view: str, parts: list[str]) -> None:
    """Show a project's view in the place of its folder, and the parts of the folder that the view has no copy of."""
    _attach(
        os.open(view, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW), _open_below(root, folder, make="folder")
    )
    if parts:
        origin = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        for part in parts:
            _attach(_open_below(origin, part), _open_below(root, f"{folder}/{part}"))


def _open_below(top: int, path: str, *, make: str = "") -> int:
    """Open a path below an open folder; make what is missing of it: its last part is a ``folder`` or a ``file``.

    Raise OSError where any part is a link.
    """
    names = [name for name in path.split("/") if name]
    current = os.dup(top)
    for index, name in enumerate(names):
        is_last = index == len(names) - 1
        if make:
            with suppress(FileExistsError):
                _make_entry(current, name, is_folder=not is_last or make == "folder")
        below = os.open(name, os.O_PATH | os.O_NOFOLLOW | (0 if is_last else os.O_DIRECTORY), dir_fd=current)
        os.close(current)
        current = below
    if stat.S_ISLNK(os.fstat(current).st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return current


def _make_entry(folder: int, name: str, *, is_folder: bool) -> None:
    if is_folder:
        os.mkdir(name, 0o755, dir_fd=folder)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600, dir_fd=folder))


def _attach(source: int, target: int, *, is_read_only: bool = True) -> None:
    """Show an open file or folder in the place of another one, read-only with all that is mounted in it."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE
    tree = call_system(OPEN_TREE, source, b"", flags)
    if is_read_only:
        _set_read_only(tree, recursive=True)
    call_system(MOVE_MOUNT, tree, b"", target, b"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
    for descriptor in (tree, source, target):
        os.close(descriptor)


def _mount_tmpfs(target: int, options: str) -> None:
    place = f"/proc/self/fd/{target}".encode()
    call_library("mount", b"tmpfs", place, b"tmpfs", MS_NOSUID | MS_NODEV, options.encode())
    os.close(target)


def _mount_proc(root: int) -> None:
    """Mount this PID namespace's own /proc, read-only: as root's number its settings could be written otherwise.

    Inside some containers the kernel refuses; the folder then stays empty.
    """
    place = _open_below(root, "proc", make="folder")
    try:
        call_library(
            "mount",
            b"proc",
            f"/proc/self/fd/{place}".encode(),
            b"proc",
            MS_NOSUID | MS_NODEV | MS_NOEXEC,
            None,
        )
    except OSError:
        return
    for name in ("keys", "key-users"):  # of every user's number that the kernel knows
        if os.path.exists(f"/proc/{name}"):
            _attach(os.open("/dev/null", os.O_PATH), _open_below(root, f"proc/{name}"))
    mounted = _open_below(root, "proc")
    with suppress(OSError):  # it only keeps more namespaces out
        limit = f"/proc/self/fd/{mounted}/sys/user/max_user_namespaces"
        write_setting(limit, "0")
    _set_read_only(mounted, recursive=True)


def _set_read_only(descriptor: int, *, recursive: bool) -> None:
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, 0)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    call_system(MOUNT_SETATTR, descriptor, b"", flags, attributes, ctypes.sizeof(attributes))


def _pivot(root: int) -> None:
    """Make ``root`` the root, and detach the old one: nothing names it any more."""
    os.fchdir(root)
    pivot_root(b".", b".")
    call_library("umount2", b".", MNT_DETACH)
    os.chdir("/")

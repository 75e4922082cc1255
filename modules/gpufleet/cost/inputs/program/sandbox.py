"""Confine a process and all that it starts: namespaces, limits, and an end that none of them survives.

Standard library only, and nothing of gpufleet: ``child.py`` loads it by its file in whichever Python it runs.
The tree of one confined call is

    caller ─ supervisor ─ init (process 1 of a PID namespace) ─ the call

The supervisor waits in the caller's namespaces. When the call ends, when standard input of the supervisor ends
(the parent has died) or when the caller dies, the supervisor stops init, and the kernel ends everything in the PID
namespace with it. Without namespaces the supervisor adopts orphans (Linux) and stops what it started by itself.
"""

# System calls take paths as text or bytes, and /tmp is the new file system's own.
# ruff: noqa: PTH103, PTH110, PTH112, PTH114, PTH115, PTH120, PTH123, PTH211, S108

from __future__ import annotations

import ctypes
import os
import platform
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

NETWORK, FILES, PROCESS_COUNT = "the network", "files outside the project", "the number of processes"

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x20000, 0x2000000, 0x4000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x8000000, 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
AT_FDCWD, AT_RECURSIVE, SYS_MOUNT_SETATTR = -100, 0x8000, 442

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 36, 47, 4
CAPABILITY_VERSION, CAPABILITIES, KEYCTL_JOIN_SESSION_KEYRING = 0x20080522, 64, 1
# glibc has no function for these calls: pivot_root and keyctl, by machine.
SYSCALLS = {
    "x86_64": (155, 250), "aarch64": (41, 219), "riscv64": (41, 219), "ppc64le": (203, 271), "s390x": (217, 280),
}  # fmt: skip
INNER_ID = 1000  # who root is inside: a number that gets no privileges from running a program
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
SETTINGS = (
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/timezone",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")

GIB, MIB = 1 << 30, 1 << 20
MEMORY_BYTES = 8 * GIB  # of one process's address space; the SDKs map 1 to 2 GiB
FILE_BYTES = 64 * MIB
SCRATCH_BYTES = 256 * MIB  # of all that a program writes
OPEN_FILES, PROCESS_LIMIT = 1024, 512

Bounds = dict[str, Any]
"""``visible`` and ``hidden`` paths, ``revealed`` files in hidden folders, ``folder`` (the one place to write),
``cpu_s``; ``trusted`` confines nothing."""


def start_sandboxed_call(
    bounds: Bounds, call: Callable[[], object], report: Callable[[list[str]], object]
) -> int:
    """Start a call confined, and return its supervisor's process id; ``report`` gets what could not be confined.

    ``report`` is called before the call is, in a process that the call cannot reach.
    """
    caller = os.getpid()
    supervisor = os.fork()
    if supervisor:
        return supervisor
    with suppress(BaseException):
        _die_with(caller)
        _supervise(bounds, call, report)
    os._exit(1)


def _supervise(bounds: Bounds, call: Callable[[], object], report: Callable[[list[str]], object]) -> NoReturn:
    is_root, is_alone = os.getuid() == 0, not bounds["trusted"] and _leave_namespaces()
    if not is_alone:
        _adopt_orphans()
        if not bounds["trusted"]:
            report([NETWORK, FILES, PROCESS_COUNT])
    init_end, own_end = os.pipe()  # ends for init when the supervisor does
    child = os.fork()
    if child == 0:
        if is_alone:
            os.close(own_end)
            _be_init({**bounds, "is_root": is_root}, call, report, init_end)
        _run(bounds, call)
    status = _wait(child, os.dup(0), own_end)
    if not is_alone:
        _stop_descendants(child)
    os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def _wait(child: int, parent: int, own_end: int) -> int:
    """Wait for the child; stop it when the pipe from the parent ends, which says that the parent has."""
    _close_all_but({parent, own_end})
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = [parent, wake]
    while True:
        ended_child, status = os.waitpid(child, os.WNOHANG)
        if ended_child:
            return status
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 512)
        if parent in ready and not os.read(parent, 512):
            os.kill(child, signal.SIGKILL)
            watched.remove(parent)


def _be_init(
    bounds: Bounds, call: Callable[[], object], report: Callable[[list[str]], object], supervisor: int
) -> NoReturn:
    """Be process 1: make the file system, start the call, and end with it."""
    _die_with(0)
    if select.select([supervisor], [], [], 0)[0] and not os.read(supervisor, 1):
        os._exit(1)
    missing = _limit_process_count(bounds["is_root"])
    try:
        _make_root(bounds)
    except OSError:
        missing.append(FILES)
    report(missing)
    bounds = {**bounds, "is_alone": True}
    _call("prctl", PR_SET_DUMPABLE, 0)  # nothing inside may trace this process
    child = os.fork()
    if child == 0:
        _run(bounds, call)
    _close_all_but(set())
    while True:
        done, status = os.wait()
        if done == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def _run(bounds: Bounds, call: Callable[[], object]) -> NoReturn:
    """Give up what is left of privileges, and make the call."""
    code = 1
    with suppress(BaseException):
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        if not bounds["trusted"]:
            os.umask(0o077)
            _limit(bounds["cpu_s"], bounds.get("is_alone", False))
            _drop_privileges()
        if bounds["trusted"] or sys.platform != "linux":
            os.setsid()
        call()
        code = 0
    os._exit(code)


def _leave_namespaces() -> bool:
    """Enter namespaces of our own; False where the kernel allows none."""
    if sys.platform != "linux":
        return False
    uid, gid = os.getuid(), os.getgid()
    try:
        _call("unshare", CLONE_NEWUSER | NAMESPACES)
    except OSError:
        try:
            _call("unshare", NAMESPACES)  # root needs no user namespace
        except OSError:
            return False
        return True
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid or INNER_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{gid or INNER_ID} {gid} 1")
    return True


def _make_root(bounds: Bounds) -> None:
    """Make a file system that shows what the bounds name, read-only, and leave the old one."""
    new, folder = f"{bounds['folder']}/root", bounds["folder"]
    os.makedirs(new, exist_ok=True)
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _mount("tmpfs", new, MS_NOSUID | MS_NODEV, "mode=0755,size=16m,nr_inodes=16384")
    os.makedirs(f"{new}/tmp")
    _mount("tmpfs", f"{new}/tmp", MS_NOSUID | MS_NODEV, f"mode=1777,size={SCRATCH_BYTES},nr_inodes=16384")
    os.close(os.open(f"{new}/.empty", os.O_CREAT | os.O_WRONLY, 0o444))
    os.makedirs(f"{new}/dev")
    for name in DEVICES:
        _bind(f"/dev/{name}", f"{new}/dev/{name}")
        _set_read_only(f"{new}/dev/{name}", recursive=False)  # its mode and owner; it can be written to
    os.symlink("/proc/self/fd", f"{new}/dev/fd")
    for path in (*SYSTEM, *SETTINGS, *bounds["visible"]):
        _show(new, path)
    for path in bounds["hidden"]:
        _hide(new, path, bounds["revealed"])
    os.makedirs(f"{new}{folder}", exist_ok=True)
    _mount("tmpfs", f"{new}{folder}", MS_NOSUID | MS_NODEV, f"mode=0700,size={SCRATCH_BYTES},nr_inodes=16384")
    for name in ("home", "tmp"):
        os.makedirs(f"{new}{folder}/{name}")
    _mount_proc(new)
    _set_read_only(new, recursive=False)
    _pivot(new)


def _show(new: str, path: str) -> None:
    """Show a path of the old file system at the same place, read-only; one that is not there is left out."""
    target = new + path
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if not os.path.exists(path):
        return
    _bind(path, target)
    _set_read_only(target, recursive=True)


def _hide(new: str, path: str, revealed: list[str]) -> None:
    """Put nothing in the place of a file or a folder, but for revealed files in the folder."""
    target = new + path
    if os.path.isdir(target):
        _mount("tmpfs", target, MS_NOSUID | MS_NODEV, "mode=0555,size=64k,nr_inodes=64")
        for file in revealed:
            if file.startswith(f"{path}/"):
                _bind(file, new + file)
                _set_read_only(new + file, recursive=False)
        _set_read_only(target, recursive=False)
    elif os.path.lexists(target):
        _bind(f"{new}/.empty", target)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    _call("mount", os.fsencode(source), os.fsencode(target), None, MS_BIND | MS_REC, None)


def _mount(kind: str, target: str, flags: int, options: str = "") -> None:
    _call("mount", kind.encode(), os.fsencode(target), kind.encode(), flags, options.encode() or None)


def _mount_proc(new: str) -> None:
    """Mount this PID namespace's own /proc, read-only: as root's number its settings could be written otherwise.

    Inside some containers the kernel refuses; the folder then stays empty.
    """
    os.makedirs(f"{new}/proc")
    with suppress(OSError):
        _mount("proc", f"{new}/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        with suppress(OSError):
            _write(f"{new}/proc/sys/user/max_user_namespaces", "0")
        _set_read_only(f"{new}/proc", recursive=True)


def _set_read_only(path: str, *, recursive: bool) -> None:
    attributes = (ctypes.c_uint64 * 4)(MS_RDONLY | MS_NOSUID, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attributes)
    _call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, attributes, size)


def _pivot(new: str) -> None:
    """Make ``new`` the root, and detach the old one: nothing names it any more."""
    os.chdir(new)
    _call("syscall", _syscall_numbers()[0], b".", b".")
    try:
        _call("umount2", b".", MNT_DETACH)
        os.chdir("/")
    except OSError:
        os._exit(1)


def _limit_process_count(is_root: bool) -> list[str]:
    """Bound how many processes there are at once; return what could not be bounded.

    The limit of a user's processes does not hold for root. The bound of a PID namespace (Linux 6.14) does.
    """
    try:
        _write("/proc/sys/kernel/pid_max", str(PROCESS_LIMIT))
    except OSError:
        return [PROCESS_COUNT] if is_root or not _counts_processes_by_namespace() else []
    return []


def _limit(cpu_s: int, is_alone: bool) -> None:
    limits = {
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    if is_alone and _counts_processes_by_namespace():
        limits[resource.RLIMIT_NPROC] = PROCESS_LIMIT
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # macOS has no limit of the address space
            resource.setrlimit(kind, (bound, bound))


def _counts_processes_by_namespace() -> bool:
    """Return True from Linux 5.14: before, a user's other programs count too."""
    parts = platform.release().split(".")
    with suppress(ValueError, IndexError):
        return (int(parts[0]), int(parts[1])) >= (5, 14)
    return False


def _drop_privileges() -> None:
    """Drop every capability for good, and the keys of the session."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(CAPABILITIES):
        with suppress(OSError):  # without privileges there is nothing to drop
            _call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with suppress(OSError):
        _call("syscall", _syscall_numbers()[1], KEYCTL_JOIN_SESSION_KEYRING, None)
    _call("prctl", PR_SET_DUMPABLE, 1)


def _syscall_numbers() -> tuple[int, int]:
    try:
        return SYSCALLS[platform.machine()]
    except KeyError:
        raise OSError(f"no system call numbers for {platform.machine()}") from None


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; where it cannot, the pipe's end does."""
    if sys.platform == "linux":
        _call("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    if sys.platform == "linux":
        _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _call("prctl", PR_SET_PDEATHSIG, 0, 0, 0, 0)  # it must live to stop what it adopted


def _stop_descendants(child: int) -> None:
    """Kill what the call left behind: on Linux every descendant, elsewhere its session."""
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    if sys.platform != "linux":
        return
    while True:
        for process in _children_of(os.getpid()):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children_of(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as listing:
        return [int(token) for token in listing.read().split()]


def _close_all_but(open_descriptors: set[int]) -> None:
    highest = max(open_descriptors, default=-1)
    for descriptor in range(highest + 1):
        if descriptor not in open_descriptors:
            with suppress(OSError):
                os.close(descriptor)
    os.closerange(highest + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library; raise OSError where it fails."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    outcome = int(function(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)))
    if outcome == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return outcome

"""Block devices for rehearsed hosts: sparse files of the rehearsal's own on the kernel's loop devices.

Which devices are ours is asked of the kernel each time, by the file behind them: a device whose file is not under
this rehearsal's folder is never bound into a host, written to or detached. So no record can be stale, and what a
killed run attached is found again.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack.plan import HostPlan
from gpufleet.rehearsal.rack.shell import environment, run

BLOCK_DEVICES = Path("/sys/block")
CONTROL = Path("/dev/loop-control")
SIZE_MIB = 400  # sparse; mkfs.xfs wants 300 MiB at least
FOLDER = "drives"
GONE = " (deleted)"  # the kernel's mark behind the name of a file that was removed
MAJOR = 7  # of loop devices: the kernel's Documentation/admin-guide/devices.txt
PATIENCE_S = 5.0
POLL_S = 0.05
MODEL = "STAND-IN drive (a file)"


def unavailable_reason() -> str | None:
    """Say why this machine can give hosts no drives, or return None; found out by attaching one and detaching it."""
    if not CONTROL.exists():
        return "this kernel, or this container, has no loop devices (/dev/loop-control)"
    if not shutil.which("losetup", path=environment()["PATH"]):
        return "losetup is not installed (package mount)"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _attach(Path(folder) / "drive")
        except EnvironmentFault as fault:
            return str(fault)
        finally:
            sweep(Path(folder))
    return None


def files(plan: HostPlan) -> list[Path]:
    """Return the files that a host's drives are."""
    return [plan.folder / FOLDER / str(number) for number in range(1, plan.disks + 1)]


def attach(plan: HostPlan) -> list[str]:
    """Have a device for each drive of a host and return their paths; those that there are stay."""
    wanted = files(plan)
    sweep(plan.folder, keep=wanted)
    there = {file: device for device, file in _attached(plan.folder)}
    return [there.get(str(file.resolve())) or _attach(file) for file in wanted]


def sweep(folder: Path, keep: Collection[Path] = ()) -> None:
    """Detach every device backed by a file below a folder, removed files included, but for those to keep."""
    kept = {str(path.resolve()) for path in keep}
    deadline = time.monotonic() + PATIENCE_S
    # A detached device goes when its last user does: mounts of a host that has just ended may take a moment.
    while left := [device for device, file in _attached(folder) if file not in kept]:
        if time.monotonic() > deadline:
            raise EnvironmentFault(
                f"still in use: {' '.join(left)}", hint=f"losetup --list; files of {folder}"
            )
        for device in left:
            with contextlib.suppress(EnvironmentFault):  # gone since
                run(["losetup", "--detach", device])
        time.sleep(POLL_S if any(file not in kept for _, file in _attached(folder)) else 0)


def udev_records(plan: HostPlan, devices: Iterable[str]) -> str:
    """Return lines of tmpfiles.d that lay what udev, which no container runs, would have written of the drives.

    lsblk takes serial and model from there; a loop device has none of its own.
    """
    lines = []
    for number, device in enumerate(devices, start=1):
        facts = f"E:ID_MODEL={MODEL}\\nE:ID_SERIAL_SHORT={serial(plan, number)}\\n".replace(" ", "\\x20")
        minor = re.sub(r"\D", "", device)
        lines.append(f"f+ /run/udev/data/b{MAJOR}:{minor} 0644 root root - {facts}\n")
    title = "# STAND-IN for udev: serial and model of this rehearsed host's drives\n"
    return "".join([title, *lines]) if lines else ""


def serial(plan: HostPlan, number: int) -> str:
    """Return the serial of a host's n-th drive."""
    return f"STANDIN{plan.serial[-8:].upper()}-{number}"


def _attach(file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        opened.truncate(SIZE_MIB * 2**20)
    return run(["losetup", "--find", "--show", str(file)]).strip()


def _attached(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield device and file for every loop device whose file lies, or lay, below a folder."""
    top = f"{folder.resolve()}/"
    for told in sorted(BLOCK_DEVICES.glob("loop*/loop/backing_file")):
        with contextlib.suppress(OSError):  # detached as we look
            file = told.read_text().removesuffix("\n")
            if file.startswith(top):
                yield f"/dev/{told.parents[1].name}", file

"""Block devices for rehearsed hosts: sparse files on the kernel's loop devices.

A device belongs to a rehearsal if its backing file is under the rehearsal's folder; others are never bound into a
host, written to or detached. The kernel is asked each time, so no record can be stale, and devices of a killed run
are found again.
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
from gpufleet.rehearsal.rack.shell import build_system_environment, run_command

BLOCK_DEVICES = Path("/sys/block")
LOOP_CONTROL = Path("/dev/loop-control")
SIZE_MIB = 400  # sparse; mkfs.xfs wants 300 MiB at least
FOLDER = "drives"
MAJOR = 7  # of loop devices: the kernel's Documentation/admin-guide/devices.txt
DETACH_TIMEOUT_S = 5.0
POLL_S = 0.05
MODEL = "FAKE drive (a file)"


def find_loop_device_problem() -> str | None:
    """Return why this machine cannot attach loop devices, or None; the check attaches one and detaches it."""
    if not LOOP_CONTROL.exists():
        return "this kernel, or this container, has no loop devices (/dev/loop-control)"
    if not shutil.which("losetup", path=build_system_environment()["PATH"]):
        return "losetup is not installed (package mount)"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _attach_file(Path(folder) / "drive")
        except EnvironmentFault as fault:
            return str(fault)
        finally:
            detach_loop_devices(Path(folder))
    return None


def list_drive_files(plan: HostPlan) -> list[Path]:
    """Return the backing files of a host's drives."""
    return [plan.folder / FOLDER / str(number) for number in range(1, plan.disks + 1)]


def attach_loop_devices(plan: HostPlan) -> list[str]:
    """Attach a device for each drive of a host and return their paths; keep existing ones."""
    files = list_drive_files(plan)
    detach_loop_devices(plan.folder, files_to_keep=files)
    attached = {file: device for device, file in _attached_devices(plan.folder)}
    return [attached.get(str(file.resolve())) or _attach_file(file) for file in files]


def detach_loop_devices(folder: Path, files_to_keep: Collection[Path] = ()) -> None:
    """Detach every device with a backing file under a folder, removed files included, except those to keep."""
    kept_paths = {str(path.resolve()) for path in files_to_keep}
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    # A detached device disappears with its last user: the mounts of a host that has just stopped may take a moment.
    while remaining := [device for device, file in _attached_devices(folder) if file not in kept_paths]:
        if time.monotonic() > deadline:
            raise EnvironmentFault(
                f"loop devices are still in use: {' '.join(remaining)}",
                hint=f"losetup --list shows them; their files are in {folder}",
            )
        for device in remaining:
            with contextlib.suppress(EnvironmentFault):  # already detached
                run_command(["losetup", "--detach", device])
        time.sleep(POLL_S if any(file not in kept_paths for _, file in _attached_devices(folder)) else 0)


def build_udev_tmpfiles(plan: HostPlan, devices: Iterable[str]) -> str:
    """Return tmpfiles.d lines with the udev records of the drives, because no udev runs in a container.

    lsblk reads serial and model from there; a loop device has none.
    """
    lines = []
    for number, device in enumerate(devices, start=1):
        facts = f"E:ID_MODEL={MODEL}\\nE:ID_SERIAL_SHORT={make_drive_serial(plan, number)}\\n".replace(
            " ", "\\x20"
        )
        minor = re.sub(r"\D", "", device)
        lines.append(f"f+ /run/udev/data/b{MAJOR}:{minor} 0644 root root - {facts}\n")
    title = "# FAKE udev records: serial and model of this rehearsed host's drives\n"
    return "".join([title, *lines]) if lines else ""


def make_drive_serial(plan: HostPlan, drive_number: int) -> str:
    """Return the serial of a host's n-th drive."""
    return f"FAKE{plan.serial[-8:].upper()}-{drive_number}"


def _attach_file(file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as image:
        image.truncate(SIZE_MIB * 2**20)
    return run_command(["losetup", "--find", "--show", str(file)]).strip()


def _attached_devices(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield device and backing file for every loop device with its file, removed or not, under a folder."""
    prefix = f"{folder.resolve()}/"
    for backing_file in sorted(BLOCK_DEVICES.glob("loop*/loop/backing_file")):
        with contextlib.suppress(OSError):  # detached meanwhile
            file = backing_file.read_text().removesuffix("\n")
            if file.startswith(prefix):
                yield f"/dev/{backing_file.parents[1].name}", file

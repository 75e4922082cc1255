"""Running arm64 programs on another processor: the kernel hands them to qemu's user-mode emulation."""

from __future__ import annotations

from pathlib import Path

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack.requirements import list_missing_debian_packages
from gpufleet.rehearsal.rack.shell import run_command

BINFMT = Path("/proc/sys/fs/binfmt_misc")
QEMU = {"arm64": "qemu-aarch64"}


def ensure_cpu_emulation(arch: str) -> None:
    """Enable the kernel to run programs of a foreign architecture."""
    handler = QEMU.get(arch)
    if handler is None:
        raise EnvironmentFault(f"hosts of architecture {arch} can't be booted on this machine")
    if missing := list_missing_debian_packages(include_arm64=True):
        raise EnvironmentFault(
            f"{arch} hosts need {' '.join(missing)}", hint=f"apt install {' '.join(missing)}"
        )
    if not (BINFMT / "status").exists():
        run_command(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)])
    if not is_binfmt_handler_enabled(handler):
        run_command(["update-binfmts", "--enable", handler])
    if not is_binfmt_handler_enabled(handler):
        raise EnvironmentFault(f"the kernel does not accept {handler}", hint="update-binfmts --display")


def is_binfmt_handler_enabled(handler: str) -> bool:
    """Return whether the kernel has the handler and opens it in advance, which containers need (flag F)."""
    entry = BINFMT / handler
    if not entry.exists():
        return False
    lines = entry.read_text().split("\n")
    return "enabled" in lines and any(line.startswith("flags:") and "F" in line for line in lines)

"""Raw outputs of tools on the node's disk: compressed, bounded, by boot, so that they outlive a crash under load."""

from __future__ import annotations

import contextlib
import os
import re
import time
import zlib
from pathlib import Path
from typing import Sequence  # noqa: UP035 - Python 3.9 runs this

MAX_FILE_BYTES = 4 << 20
MAX_FOLDER_BYTES = 64 << 20
MAX_FREE_SHARE = 0.01
SYNC_SECONDS = 5.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
GZIP_WINDOW = 31


def read_boot_id() -> str:
    """Return the id that the kernel made for this boot; the same for a whole machine, its containers included."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


class SpillFile:
    """One tool's output, gzip; what cannot be written is left out, for the disk is under test too."""

    def __init__(self, path: Path) -> None:
        self.compressor = zlib.compressobj(6, zlib.DEFLATED, GZIP_WINDOW)
        self.size, self.synced_at = 0, time.monotonic()
        try:
            self.file = path.open("xb", buffering=0)
        except OSError:
            self.file = None  # type: ignore[assignment]

    def write(self, chunk: bytes) -> None:
        """Add output; flushed at intervals, so that a crash leaves a readable file."""
        if self.file is None or self.size > MAX_FILE_BYTES:
            return
        data = self.compressor.compress(chunk)
        if time.monotonic() - self.synced_at > SYNC_SECONDS:
            self.synced_at = time.monotonic()
            data += self.compressor.flush(zlib.Z_SYNC_FLUSH)
        self._append(data)

    def _append(self, data: bytes) -> None:
        self.size += len(data)
        try:
            self.file.write(data)
        except OSError:
            self.size = MAX_FILE_BYTES + 1

    def close(self) -> None:
        """Finish the file; one that was cut off at its bound stays without an end."""
        if self.file is None:
            return
        if self.size <= MAX_FILE_BYTES:
            self._append(self.compressor.flush())
        with contextlib.suppress(OSError):
            self.file.close()


class OutputSpill:
    """A folder of this boot and attempt; each tool's output is a file in it."""

    def __init__(self, state: Path, attempt: str) -> None:
        self.root = state / "raw"
        self.folder = (
            self.root / (read_boot_id() or "unknown-boot") / re.sub(r"[^A-Za-z0-9._-]", "_", attempt)
        )

    def prepare(self) -> None:
        """Create the folder and remove the oldest files beyond what the node keeps."""
        with contextlib.suppress(OSError):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            limit_folder(self.root, MAX_FOLDER_BYTES)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self, argv: Sequence[str]) -> SpillFile:
        """Open the file of one run of a tool."""
        tool = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(argv[0]))[:40]  # noqa: PTH119 - a program's name
        return SpillFile(self.folder / f"{time.time_ns()}-{os.getpid()}-{tool}.gz")


def limit_folder(folder: Path, max_bytes: int) -> None:
    """Remove the oldest files until the folder is below its bound, or below its share of the free space."""
    stat = os.statvfs(folder)
    limit = min(max_bytes, int(stat.f_bavail * stat.f_frsize * MAX_FREE_SHARE))
    files = sorted(
        (path for path in folder.rglob("*.gz") if path.is_file()), key=lambda path: path.stat().st_mtime
    )
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    for path in files:
        if total <= limit:
            break
        total -= sizes[path]
        path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            with contextlib.suppress(OSError):
                path.rmdir()

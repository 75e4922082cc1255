"""A check's access to the host: files, commands and parameters, each replaceable in a test."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .command import CommandOutput, run_command


@dataclass(frozen=True)
class RawCheckResult:
    """What a check saw; ``status`` is ran, not_run or error, and only ran can ever become a pass."""

    status: str
    reason: str = ""
    measured: Any = None
    unit: str = ""
    raw: dict[str, Any] = field(default_factory=dict)


def build_not_run_result(reason: str, **raw: Any) -> RawCheckResult:
    """Return a result without a measurement, with the reason."""
    return RawCheckResult("not_run", reason, raw=raw)


def build_error_result(reason: str, **raw: Any) -> RawCheckResult:
    """Return an error: a tool is installed but failed."""
    return RawCheckResult("error", reason, raw=raw)


# A path on the machine that runs this, or below ``root`` in a test.
@dataclass(frozen=True)
class HostAccess:
    """One node as the checks see it."""

    params: dict[str, Any] = field(default_factory=dict)
    root: str = "/"
    # As command.run_command: argv, time limit and, for long outputs, what takes each line.
    run: Callable[..., CommandOutput] = run_command
    which: Callable[[str], str | None] = shutil.which
    # The counters of the links when the attempt began (fabric.read_link_counters).
    start_links: dict[str, Any] = field(default_factory=dict)

    def resolve_path(self, name: str) -> Path:
        """Return an absolute path of the host, below ``root``."""
        return Path(self.root) / name.lstrip("/")

    def read_text_file(self, path: str) -> str | None:
        """Return a small file's text without the NUL of device-tree values, or None."""
        try:
            return self.resolve_path(path).read_bytes().decode("utf-8", "replace").strip("\x00\n ")
        except OSError:
            return None

    def read_integer_file(self, path: str) -> int | None:
        """Return a file that holds one integer, or None."""
        text = self.read_text_file(path)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None

    def list_folder(self, folder: str) -> list[str]:
        """Return what a folder holds, sorted; nothing when it is not there."""
        try:
            return sorted(entry.name for entry in self.resolve_path(folder).iterdir())
        except OSError:
            return []

    def get_parameter(self, name: str, default: Any) -> Any:
        """Return a parameter as the type of its default."""
        value = self.params.get(name, default)
        if isinstance(default, bool):
            return str(value).lower() in {"1", "true", "yes"}
        return type(default)(value)

    def is_fake_tool(self, tool: str) -> bool:
        """Return whether a tool on PATH is marked as fake, as on rehearsed hosts."""
        executable = self.which(tool)
        try:
            return executable is not None and b"FAKE" in Path(executable).read_bytes()[:400]
        except OSError:
            return False

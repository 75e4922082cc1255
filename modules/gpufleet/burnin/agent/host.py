"""A check's access to the host: files, commands and parameters, each replaceable in a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Callable, Sequence  # noqa: UP035 - Python 3.9 runs this

from .supervisor import die_with_parent

# A tool that prints more than this is broken; the record must stay small.
MAX_OUTPUT_BYTES = 1 << 20
# The kernel bounds its own buffer, and its errors are grouped before they are kept: nothing of it is cut off.
OUTPUT_LIMITS = {"dmesg": 64 << 20}


@dataclass(frozen=True)
class CommandOutput:
    """A command's exit code and output."""

    code: int
    out: str
    err: str


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


def run_command(argv: Sequence[str], timeout_s: float) -> CommandOutput:
    """Run a program with a time limit; code 124 when it ran past it, 127 when it cannot be started."""
    try:
        process = subprocess.run(
            list(argv), capture_output=True, timeout=timeout_s, check=False,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return CommandOutput(124, "", f"no answer within {timeout_s:g} s")
    except OSError as error:
        return CommandOutput(127, "", str(error))
    limit = OUTPUT_LIMITS.get(argv[0], MAX_OUTPUT_BYTES)
    out, err = (stream[:limit].decode("utf-8", "replace") for stream in (process.stdout, process.stderr))
    return CommandOutput(process.returncode, out, err)


# A path on the machine that runs this, or below ``root`` in a test.
@dataclass(frozen=True)
class HostAccess:
    """One node as the checks see it."""

    params: dict[str, Any] = field(default_factory=dict)
    root: str = "/"
    run: Callable[[Sequence[str], float], CommandOutput] = run_command
    which: Callable[[str], str | None] = shutil.which

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

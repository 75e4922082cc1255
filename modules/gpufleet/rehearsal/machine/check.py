"""One requirement as found on this machine, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Requirement = Literal["required", "racks", "tests", "optional"]
TITLES = {
    "required": "required",
    "racks": "for rehearsed racks",
    "tests": "for the test suite",
    "optional": "optional",
}


@dataclass(frozen=True)
class PackagedProgram:
    """A program in a Debian package, by its path without the first slash."""

    package: str
    path: str


@dataclass(frozen=True)
class MachineCheck:
    """``need`` is what does not work without it; ``remedy`` is the next step if it is missing.

    ``packages`` are the Debian packages that provide it, if any. ``unpacked`` is a program that is taken out of a
    package, which is not installed because it would start a service.
    """

    name: str
    need: Requirement
    ok: bool
    detail: str
    remedy: str = ""
    packages: tuple[str, ...] = ()
    unpacked: PackagedProgram | None = None


def select_failed_checks(checks: Iterable[MachineCheck], *needs: Requirement) -> list[MachineCheck]:
    """Return the failed checks with these needs."""
    return [check for check in checks if not check.ok and check.need in needs]


def format_check_table(checks: Sequence[MachineCheck]) -> str:
    """Return the checks grouped by need, one line each, readable without colour."""
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for need, title in TITLES.items():
        group = [check for check in checks if check.need == need]
        lines += [f"{title}:", *(_line(check, width) for check in group)] if group else []
    return "\n".join(lines)


def _line(check: MachineCheck, width: int) -> str:
    status = "ok     " if check.ok else ("MISSING" if check.need == "required" else "missing")
    remedy = f"   remedy: {check.remedy}" if check.remedy and not check.ok else ""
    return f"  {status} {check.name:<{width}}  {check.detail}{remedy}"

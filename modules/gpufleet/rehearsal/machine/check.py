"""One thing that the work needs, as found on this machine, and how all of them read together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Need = Literal["required", "racks", "tests", "optional"]
MEANING = {
    "required": "required",
    "racks": "for rehearsed racks",
    "tests": "for the test suite",
    "optional": "optional",
}


@dataclass(frozen=True)
class Check:
    """``need`` says what would not work without it; ``get`` is the exact next step where it is missing.

    ``packages`` are the Debian packages that bring it, where some do.
    """

    name: str
    need: Need
    ok: bool
    found: str
    get: str = ""
    packages: tuple[str, ...] = ()


def missing(checks: Iterable[Check], *needs: Need) -> list[Check]:
    """Return what is missing of the given needs."""
    return [check for check in checks if not check.ok and check.need in needs]


def as_table(checks: Sequence[Check]) -> str:
    """Return the checks grouped by need, each on one line, legible without colour."""
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for need, title in MEANING.items():
        group = [check for check in checks if check.need == need]
        lines += [f"{title}:", *(_line(check, width) for check in group)] if group else []
    return "\n".join(lines)


def _line(check: Check, width: int) -> str:
    mark = "ok     " if check.ok else ("MISSING" if check.need == "required" else "missing")
    step = f"   get it: {check.get}" if check.get and not check.ok else ""
    return f"  {mark} {check.name:<{width}}  {check.found}{step}"

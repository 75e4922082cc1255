"""The exceptions of gpufleet; the command line turns each into one line and an exit code.

GpufleetError
├── CheckFailed         exit 1   a check ran and its result is negative
├── InputError          exit 2   invalid input: place, value, remedy (ProjectFileError: in a file of the project)
└── EnvironmentFault    exit 3   the machine has no engine, credentials, privileges …
"""

from __future__ import annotations

LONGEST = 1500  # characters of a message


class GpufleetError(Exception):
    """Carries a one-line message and, where there is one, a hint for the next step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def text_with_hint(self) -> str:
        """Return message and hint as one line, for a list of problems."""
        return f"{self} ({self.hint})" if self.hint else str(self)


class CheckFailed(GpufleetError):  # noqa: N818 - a result, not an error
    """A check ran and its result is negative: policy violated, node unhealthy, nodes differ."""


class InputError(GpufleetError, ValueError):
    """What the user gave is wrong.

    ``where`` names the place (``file:line``, a flag, standard input), ``key`` the setting,
    ``remedy`` what would be right. The whole reads as one line. ``errors`` are all that were found.
    """

    exit_code = 2

    def __init__(self, problem: str, *, where: str = "", key: str = "", remedy: str = "") -> None:
        self.errors: tuple[InputError, ...] = (self,)
        place = ": ".join(part for part in (where, key) if part)
        line = f"{place}: {problem}" if place else problem
        super().__init__(_one_line(f"{line}; {remedy}" if remedy else line))
        self.problem = problem
        self.where = where
        self.key = key
        self.remedy = remedy


class ProjectFileError(InputError):
    """A file of the project is wrong: whatever a node reported must wait until it is corrected."""


def _one_line(text: str) -> str:
    """Return a message as one line of bounded length: values of bad input are quoted in it."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if shown.isprintable():
        return shown
    escaped = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return escaped if len(escaped) <= LONGEST else f"{escaped[:LONGEST]}…"


class EnvironmentFault(GpufleetError, RuntimeError):  # noqa: N818 - EnvironmentError is a builtin
    """Something that the work needs is missing on the machine or account; ``hint`` says how to get it."""

    exit_code = 3

"""Decode the output of an evaluated program: registered resources or an error. It may be forged or huge."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpufleet.boundary import DocumentLimits, decode_json, make_printable, validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.extra import find_extra, format_install_command

MIB = 1 << 20
REGISTRATIONS = DocumentLimits(bytes=32 * MIB, depth=64, values=2_000_000, characters=MIB)
RECORDS = 50_000
LONGEST_ERROR = 1000
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
PROTECTION_OPTIONS = ("trust-program", "allow-unconfined")
SEPARATORS = b",[{"  # each value needs one, so their count bounds the number of values


class AliasRegistration(BaseModel):
    """An alias: a URN, or the parts of one that differ from the resource's own."""

    model_config = ConfigDict(strict=True, extra="ignore")

    urn: str = Field(default="", max_length=4096)
    name: str = Field(default="", max_length=4096)
    type: str = Field(default="", max_length=1024)
    parent: str = Field(default="", max_length=4096)
    noParent: bool = False  # noqa: N815 - the engine's name
    stack: str = Field(default="", max_length=1024)
    project: str = Field(default="", max_length=1024)


class ResourceRegistration(BaseModel):
    """One resource with the keys of a state. Other keys, such as ``delete``, are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    urn: str = Field(max_length=4096)
    type: str = Field(max_length=1024)
    custom: bool
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    parent: str = ""
    provider: str = ""
    protect: bool = False
    retainOnDelete: bool = False  # noqa: N815 - the engine's name
    remote: bool = False
    ignoreChanges: list[str] = []  # noqa: N815 - the engine's name
    aliases: list[AliasRegistration] = []
    propertyDependencies: dict[str, list[str]] = {}  # noqa: N815 - the engine's name


class ProgramError(BaseModel):
    """A program's error as ``failure.describe_error`` writes it."""

    model_config = ConfigDict(strict=True, extra="ignore")

    problem: str
    where: str = ""
    key: str = ""
    remedy: str = ""


class ProgramOutput(BaseModel):
    """Registered resources, or an error."""

    model_config = ConfigDict(strict=True, extra="ignore")

    resources: list[ResourceRegistration] = Field(default=[], max_length=RECORDS)
    error: ProgramError | None = None

    @property
    def records(self) -> list[dict[str, Any]]:
        """The resources as plain records of a state."""
        return [resource.model_dump() for resource in self.resources]


def decode_program_output(content: bytes, where: str) -> ProgramOutput:
    """Return a program's output; raise InputError if it is invalid or over the limits."""
    if sum(content.count(mark) for mark in SEPARATORS) > REGISTRATIONS.values:
        raise InputError(f"contains more than {REGISTRATIONS.values:,} values", where=where)
    return validate_with_pydantic(ProgramOutput, decode_json(content, where, REGISTRATIONS), where)


def make_input_error(error: ProgramError, root: str, label: str, untracked: str = "") -> InputError:
    """Return a program's error as one printable line with the program's label.

    ``untracked`` is a file that the error names and that the program could not see.
    """
    if names_protection_option(f"{error.problem} {error.where} {error.key} {error.remedy}"):
        return InputError(
            "the Pulumi program failed, and its message asks you to switch its confinement off",
            where=label,
            remedy="read the program before you do that",
        )

    def make_printable_without_root(text: str) -> str:
        return make_printable(text.replace(root, ""), LONGEST_ERROR)

    place = make_printable_without_root(error.where)
    where = f"{label}: {place}".rstrip(": ") if label else place
    return InputError(
        make_printable_without_root(error.problem),
        where=where,
        key=make_printable_without_root(error.key),
        remedy=make_printable_without_root(
            (untracked and untracked_remedy(untracked)) or _find_install_command(error) or error.remedy
        ),
    )


def _find_install_command(error: ProgramError) -> str:
    """Return the command that installs the SDK that a program misses, empty for every other error."""
    missing = MISSING_MODULE.search(error.problem)
    extra = find_extra(missing[1]) if missing else None
    return format_install_command(extra) if extra else ""


def untracked_remedy(path: str) -> str:
    return f"git does not track {path}, and a confined program sees only what git tracks: git add it"


def names_protection_option(text: str) -> bool:
    """Return whether a text of a confined program names an option that gives it more."""
    letters = "".join(each for each in unicodedata.normalize("NFKD", text).lower() if each.isalnum())
    return any(name.replace("-", "") in letters for name in PROTECTION_OPTIONS)

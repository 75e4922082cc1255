"""What an evaluated program answers: the resources that it registered, or its error. Either may be forged or huge."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpufleet.boundary import Limits, decode_json, printable, validate_model
from gpufleet.errors import InputError

MIB = 1 << 20
REGISTRATIONS = Limits(bytes=32 * MIB, depth=64, values=2_000_000, characters=MIB)
RECORDS = 50_000
LONGEST_ERROR = 1000
SEPARATORS = b",[{"  # a value needs one of them, so that counting them bounds what a reader builds


class Registration(BaseModel):
    """One resource in the words of a state. What else a program says of it, such as ``delete``, is left out."""

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
    propertyDependencies: dict[str, list[str]] = {}  # noqa: N815 - the engine's name


class ProgramError(BaseModel):
    """A program's error as ``failure.describe_error`` writes it."""

    model_config = ConfigDict(strict=True, extra="ignore")

    problem: str
    where: str = ""
    key: str = ""
    remedy: str = ""


class Answer(BaseModel):
    """Records of resources, or an error."""

    model_config = ConfigDict(strict=True, extra="ignore")

    resources: list[Registration] = Field(default=[], max_length=RECORDS)
    error: ProgramError | None = None


def decode_answer(content: bytes, where: str) -> Answer:
    """Return a program's answer; raise InputError unless it is one, within limits."""
    if sum(content.count(mark) for mark in SEPARATORS) > REGISTRATIONS.values:
        raise InputError(f"holds more than {REGISTRATIONS.values:,} values", where=where)
    return validate_model(Answer, decode_json(content, where, REGISTRATIONS), where)


def program_error(error: ProgramError, root: str, side: str) -> InputError:
    """Return a program's error as one printable line that says on which side it happened."""

    def shown(text: str) -> str:
        return printable(text.replace(root, ""), LONGEST_ERROR)

    place = shown(error.where)
    where = f"{side}: {place}".rstrip(": ") if side else place
    return InputError(shown(error.problem), where=where, key=shown(error.key), remedy=shown(error.remedy))

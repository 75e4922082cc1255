"""Base of every model of the spec: frozen, no unknown keys, one form of errors."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# YAML reads an unquoted date as a date.
DateText = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is date else value)]


def build_spec_error(problem: str, remedy: str, *path: str | int) -> PydanticCustomError:
    """Return an error for a validator to raise: the problem, its remedy, and its place below what is validated."""
    context = {"problem": problem, "remedy": remedy, "path": path}
    return PydanticCustomError("gpufleet", "{problem}; {remedy}", context)


def build_pattern_annotations(pattern: str, meaning: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Return annotations for text that matches a pattern; ``meaning`` describes it in errors."""

    def check_pattern(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise build_spec_error(f"is {value!r}", f"give {meaning}")
        return value

    return AfterValidator(check_pattern), WithJsonSchema(
        {"type": "string", "pattern": f"^({pattern})$", "description": meaning}
    )


NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
NAME_MEANING = "at most 40 lowercase letters, digits and hyphens, a letter first and no hyphen last"

# Names become host names, cloud resource names and Ansible groups, so they obey the strictest of these.
_name, _name_schema = build_pattern_annotations(NAME, NAME_MEANING)
Name = Annotated[str, _name, _name_schema]
_owner, _owner_schema = build_pattern_annotations(
    r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?",
    "what every cloud takes as a label: lowercase, digits, hyphens, underscores",
)
Owner = Annotated[str, _owner, _owner_schema]
StrictInt = Annotated[int, Strict()]  # no silent 3.0, "3" or true
StrictFloat = Annotated[float, Strict()]
PositiveFloat = Annotated[float, Strict(), Field(gt=0)]

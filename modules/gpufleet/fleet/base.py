"""What every model of the spec shares: frozen, no unknown keys, and words for refusals."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
OWNER = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """Return an error for a validator to raise: what is wrong, and what would be right."""
    return PydanticCustomError("gpufleet", "{problem}; {remedy}", {"problem": problem, "remedy": remedy})


def check_name(value: str) -> str:
    """Return the name if it may be one."""
    if not NAME.fullmatch(value):
        raise refusal(
            f"{value!r} is not a name",
            "at most 40 lowercase letters, digits and hyphens, a letter first and no hyphen last",
        )
    return value


def _owner(value: str) -> str:
    if not OWNER.fullmatch(value):
        raise refusal(
            f"{value!r} can't be a label on every cloud",
            "at most 63 lowercase letters, digits, hyphens and underscores",
        )
    return value


# Names become host names, cloud resource names and Ansible groups, so they obey the strictest of these.
Name = Annotated[str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$"})]
Owner = Annotated[
    str, AfterValidator(_owner), WithJsonSchema({"type": "string", "pattern": f"^{OWNER.pattern}$"})
]
Whole = Annotated[int, Strict()]  # no silent 3.0, "3" or true
Amount = Annotated[float, Strict()]
Positive = Annotated[float, Strict(), Field(gt=0)]

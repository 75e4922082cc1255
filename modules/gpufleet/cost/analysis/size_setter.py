"""Types that set the size or the use of others: schedules, scaling policies, event sources."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.graph import strip_api_version
from gpufleet.engine import StateResource

ANYTHING = "*"


@dataclass(frozen=True)
class SizeSetter:
    """What a type sets.

    ``target`` is the input that names the resources; ``ANYTHING`` if no pricer knows what it scales; empty if they
    refer to it.
    """

    target: str
    why: str


NO_SETTER = SizeSetter("", "")


def find_size_setter(resource: StateResource) -> SizeSetter:
    """Return what a resource sets the size of, ``NO_SETTER`` if it sets none."""
    return _find_by_type(strip_api_version(resource.type))


@cache
def _find_by_type(type_token: str) -> SizeSetter:
    rows = _load_size_setters()
    return next((row for pattern, row in rows.items() if fnmatchcase(type_token, pattern)), NO_SETTER)


@cache
def _load_size_setters() -> dict[str, SizeSetter]:
    rows = read_packaged_rows("gpufleet.cost", "data/size_setters.csv")
    return {row["type"]: SizeSetter(row["target"], row["why"]) for row in rows}

"""Names of stacks, also with organisation and project, as Pulumi's commands take them: ``acme/web/production``."""

from __future__ import annotations

import re

from gpufleet.boundary import shorten_repr
from gpufleet.errors import InputError
from gpufleet.paths import refuse_stack_file_name

MAX_PARTS = 3
# The rule of Pulumi's engine (pkg/backend, names of stacks): letters, digits, hyphens, underscores and periods.
PART = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def parse_stack_name(name: str, where: str = "--stack") -> str:
    """Return the stack's own name, which its file has: the last part. Raise InputError for another text."""
    refuse_stack_file_name(name, where)
    parts = name.split("/")
    if len(parts) > MAX_PARTS or not all(PART.fullmatch(part) and part.strip(".") for part in parts):
        raise InputError(
            f"{shorten_repr(name)} is not a stack's name",
            where=where,
            remedy="for example production, or acme/web/production",
        )
    return parts[-1]

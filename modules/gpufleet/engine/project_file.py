"""Read a project's file, ``Pulumi.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpufleet import boundary
from gpufleet.errors import InputError

PROJECT_FILE = "Pulumi.yaml"


def read_project_setting(root: Path, *keys: str) -> str:
    """Return a text of a project's file, such as ``stackConfigDir``; "" if it is not there.

    A file without the last key's name is not parsed: the reader takes a tenth of a second to load. Raise InputError
    if the file is not valid YAML.
    """
    path = root / PROJECT_FILE
    return parse_project_setting(boundary.read_text(path) if path.is_file() else "", str(path), *keys)


def parse_project_setting(text: str, where: str, *keys: str) -> str:
    """Return a text of a project's file from its content; "" if it is not there."""
    if keys[-1] not in text and "\\" not in text:  # an escape can spell a key in another way
        return ""
    value: Any = boundary.decode_yaml(text, where)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict | list):
        raise InputError("must be a text", where=where, key=".".join(keys))
    return "" if value is None else str(value)

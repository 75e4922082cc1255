"""Which clouds a project's stacks and programs name, read quickly and without validating them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from gpufleet.boundary import read_text
from gpufleet.errors import InputError


def has_pool_of_cloud(text: str, cloud: str) -> bool:
    """Return True if a stack's file or a program has a pool of the cloud."""
    return bool(re.search(rf"""\bcloud["']?\s*[:=]\s*["']?{cloud}\b""", text))


def list_used_clouds(root: Path, clouds: Collection[str]) -> list[str]:
    """Return the clouds that stacks or programs of a project name; all of them where none is named."""
    files = [
        *root.glob("stacks/Pulumi.*.yaml"),
        *root.glob("Pulumi.*.yaml"),
        *root.glob("stacks/*.py"),
        *root.glob("*.py"),
    ]
    texts = [text for file in files if (text := _read_if_possible(file))]
    return [cloud for cloud in clouds if any(has_pool_of_cloud(text, cloud) for text in texts)] or [*clouds]


def _read_if_possible(file: Path) -> str:
    try:
        return read_text(file)
    except InputError:
        return ""

"""Memory that is there and free, and how much of it a check may take."""

from __future__ import annotations

import re

MAX_MEMORY_SHARE = 0.25


def parse_meminfo(text: str) -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    rows = re.findall(r"^(\w+):\s+(\d+) kB$", text, flags=re.MULTILINE)
    return {name: int(value) * 1024 for name, value in rows}

"""The YAML blocks of docs/k3s.md, by the file that each one names."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/k3s.md"


def read_blocks() -> dict[str, str]:
    """Return the text of each YAML block by its file, ``inventory/gpufleet.yaml``."""
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(blocks)

# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which board the device tree names."""

from __future__ import annotations

from pathlib import Path

MODELS = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")


def read_board_model() -> str:
    """Return the board's model from the device tree; empty if there is none."""
    for path in MODELS:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace").strip("\x00 \n")
        except OSError:
            continue
    return ""

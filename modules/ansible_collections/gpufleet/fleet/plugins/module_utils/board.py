# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""What the device tree says of the board."""

from __future__ import annotations

from pathlib import Path

MODELS = ("/proc/device-tree/model", "/sys/firmware/devicetree/base/model")


def read_first_readable_file(*paths: str | Path) -> str:
    """Return the first of the files that can be read, without NULs and space at its ends."""
    for path in paths:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace").strip("\x00 \t\r\n")
        except OSError:
            continue
    return ""


def read_board_model() -> str:
    """Return the board's model; empty if there is no device tree."""
    return read_first_readable_file(*MODELS)

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""gpufleet's block of a Raspberry Pi's config.txt. Pure.

The block is the start of the file. No conditional filter (``[cm4]``) applies there, and parameters of a HAT's overlay
are in scope only until another overlay is loaded.

Sources: raspberrypi/documentation, config_txt/conditional.adoc, config_txt/what_is_config_txt.adoc and
configuration/device-tree.adoc part 3.4; raspberrypi/linux, arch/arm/boot/dts/overlays/README. Read 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

BEGIN = "# BEGIN gpufleet: changes made in this block are overwritten"
END = "# END gpufleet"
MOVED = "has moved to"  # Raspberry Pi OS 12 leaves a /boot/config.txt with this note
# "Pi5 only" in the overlays' README; the Compute Module 5 and Raspberry Pi 500 have the same chip, BCM2712.
BCM2712_SETTINGS = re.compile(r"fan_temp\d(_hyst|_speed)?|usb_max_current_enable")
BCM2712_BOARDS = ("Raspberry Pi 5", "Compute Module 5")


def split_managed_block(text: str) -> str:
    """Return the text without gpufleet's block; a block without its end is an error."""
    lines = text.splitlines(keepends=True)
    bare = [line.strip() for line in lines]
    if BEGIN not in bare:
        return text
    start = bare.index(BEGIN)
    if END not in bare[start:]:
        raise HostError(f"line {start + 1} begins gpufleet's block, and no line ends it; remove the block")
    end = bare.index(END, start)
    return "".join(lines[:start] + lines[end + 1 :])


def edit_config_txt(text: str, settings: Sequence[str]) -> str:
    """Return config.txt with these settings in gpufleet's block; without settings the block is left out."""
    rest = split_managed_block(text)
    if not settings:
        return rest
    return "".join(f"{line}\n" for line in (BEGIN, "[all]", *settings, END)) + rest


def list_setting_names(line: str) -> list[str]:
    """Return what a line sets: the property, the overlay, or each parameter of a dtparam."""
    name, __, value = line.strip().partition("=")
    if name in ("dtparam", "dtparams"):
        return [part.partition("=")[0].strip() for part in value.split(",")]
    if name == "dtoverlay":
        overlay, *parameters = value.split(",")
        names = [part.partition("=")[0].strip() for part in parameters]
        return ([f"overlay {overlay.strip()}"] if overlay.strip() else []) + names
    return [name] if value and not name.startswith("#") else []


def find_conflicts(text: str, settings: Iterable[str]) -> list[str]:
    """Return the lines outside gpufleet's block that set what these settings set; they would override it."""
    names = {name for setting in settings for name in list_setting_names(setting)}
    lines = split_managed_block(text).splitlines()
    return [line.strip() for line in lines if names & set(list_setting_names(line))]


def find_unsupported_settings(model: str, settings: Iterable[str]) -> list[str]:
    """Return the settings that the board does not have."""
    if any(board in model for board in BCM2712_BOARDS):
        return []
    return [
        setting
        for setting in settings
        if any(BCM2712_SETTINGS.fullmatch(name) for name in list_setting_names(setting))
    ]

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What filters hand to gpufleet.fleet.resources: entries of its ``files`` and ``units``."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class FileEntry(TypedDict):
    """A file, folder, link or some lines of a file; ``validate`` is a command that must accept the new content."""

    path: str
    state: NotRequired[str]
    content: NotRequired[str]
    mode: NotRequired[str]
    owner: NotRequired[str]
    group: NotRequired[str]
    target: NotRequired[str]
    lines: NotRequired[list[str]]
    remove: NotRequired[list[str]]
    validate: NotRequired[list[str]]


class UnitEntry(TypedDict):
    """A systemd unit, and the paths and packages that it takes up when they change."""

    name: str
    enabled: NotRequired[bool]
    state: NotRequired[str]
    restart_on: NotRequired[list[str]]
    reload_on: NotRequired[list[str]]
    daemon_reload_on: NotRequired[list[str]]

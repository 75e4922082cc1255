# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""sshd's drop-in: the text of it, with only those algorithms that this host's sshd knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypedDict, Union

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HEADER,
    HostError,
    first_nonempty_line,
    run_program,
)

SSHD = "/usr/sbin/sshd"
# Its own folder for privilege separation; a socket-activated or stopped sshd may not have it.
RUNTIME_FOLDER = Path("/run/sshd")
ALGORITHM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]*")

Settings = dict[str, Union[str, int, bool]]
# Keyword of sshd_config to algorithms, best first.
AlgorithmLists = dict[str, list[str]]


class SupportedAlgorithms(TypedDict):
    """The lists that this sshd accepts, and what it does not know of the requested ones."""

    supported: AlgorithmLists
    unsupported: AlgorithmLists


def render_sshd_drop_in(settings: Settings, lists: AlgorithmLists) -> str:
    """Return the drop-in's text: settings by name, then algorithms."""
    lines = [f"{name} {settings[name]}" for name in sorted(settings, key=str.lower)]
    lines += [f"{keyword} {','.join(lists[keyword])}" for keyword in sorted(lists, key=str.lower)]
    return HEADER + "".join(f"{line}\n" for line in lines)


def find_rejection(options: AlgorithmLists) -> str:
    """Return why sshd rejects the host's configuration with these lists before it, or an empty string."""
    RUNTIME_FOLDER.mkdir(mode=0o755, exist_ok=True)
    arguments = [f"-o{keyword}={','.join(names)}" for keyword, names in options.items()]
    status, out, err = run_program([SSHD, "-t", *arguments])
    return "" if status == 0 else first_nonempty_line(err, out)


def find_supported_algorithms(lists: AlgorithmLists, present_text: str = "") -> SupportedAlgorithms:
    """Return what this sshd supports of each list, in the same order; raise HostError if that is nothing.

    sshd itself judges: ``ssh -Q`` lists what the client was built with, which FIPS mode narrows for both.
    ``present_text`` is the present drop-in: sshd judges its algorithms together, and the others one by one.
    """
    for keyword, names in lists.items():
        for name in names:
            if not ALGORITHM_NAME.fullmatch(name):
                raise HostError(f"{keyword}: {name!r} is not the name of an algorithm")
    present = dict(line.split(" ", 1) for line in present_text.splitlines() if " " in line)
    known = {
        keyword: [name for name in names if name in present.get(keyword, "").split(",")]
        for keyword, names in lists.items()
    }
    known = {keyword: names for keyword, names in known.items() if names}
    # A drop-in that has only a part of the lists is from an sshd that rejected the whole.
    if not lists or (known in ({}, lists) and not find_rejection(lists)):
        return {"supported": lists, "unsupported": {}}
    if known and find_rejection(known):
        known = {}
    supported = {
        keyword: _select_accepted_names(keyword, names, known.get(keyword, []))
        for keyword, names in lists.items()
    }
    empty = [keyword for keyword in lists if not supported[keyword]]
    if empty and not Path(SSHD).is_file():
        raise HostError(f"no SSH service is installed here ({SSHD} is missing)")
    if empty and (reason := find_rejection({})):
        raise HostError(f"sshd rejects the host's own configuration: {reason}")
    if empty:
        requested = ", ".join(lists[empty[0]])
        raise HostError(f"{empty[0]} was not changed: this host's sshd supports none of {requested}")
    missing = {
        keyword: [name for name in names if name not in supported[keyword]]
        for keyword, names in lists.items()
    }
    return {
        "supported": supported,
        "unsupported": {keyword: names for keyword, names in missing.items() if names},
    }


def _select_accepted_names(keyword: str, names: list[str], known_names: list[str]) -> list[str]:
    """Return the known names and those that sshd accepts of the others."""
    others = [name for name in names if name not in known_names]
    if others and find_rejection({keyword: others}):
        others = [name for name in others if len(others) > 1 and not find_rejection({keyword: [name]})]
    return [name for name in names if name in known_names or name in others]


def find_overridden_lists(lists: AlgorithmLists) -> dict[str, str]:
    """Return the keywords that sshd reads from another file first, each with the list in force."""
    status, out, __ = run_program([SSHD, "-T"])
    if status != 0:
        return {}
    effective = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    return {
        keyword: f"another file sets it first: {effective[keyword.lower()]}"
        for keyword, names in lists.items()
        if effective.get(keyword.lower(), ",".join(names)) != ",".join(names)
    }

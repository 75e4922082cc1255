# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""What was changed and not yet taken up by its units, so that a run that was cut off is finished by the next.

Without it a host that dies between a file's replacement and its service's restart would keep the old setting in force
for ever: the file no longer differs. The record is in /run, because a restart of the machine applies everything.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

RECORD = Path("/run/gpufleet/unfinished.json")


def read_unfinished_changes() -> set[str]:
    """Return the recorded paths and packages; none without a readable record."""
    try:
        names = json.loads(RECORD.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {thing for thing in names if isinstance(thing, str)} if isinstance(names, list) else set()


def write_unfinished_changes(changed_names: set[str]) -> None:
    """Replace the record; an empty one is removed."""
    if not changed_names:
        RECORD.unlink() if RECORD.exists() else None
        return
    RECORD.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = RECORD.with_name(f".{os.getpid()}.json")
    fresh.write_text(json.dumps(sorted(changed_names)), encoding="utf-8")
    fresh.replace(RECORD)

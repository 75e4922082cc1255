# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find misspelt settings among a host's variables: names that nothing reads and that resemble a setting.

Ansible ignores a variable that nothing reads, so a misspelt one would leave its setting at the default. The file
known_variables.txt lists the names that roles, plays and the inventory use (tools/role_variables.py writes it).
Ansible runs a task in a process of its own for each host, which only has time to read a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

COLLECTION = Path(__file__).resolve().parents[2]
LIST_FILE = Path(__file__).with_name("known_variables.txt")
INTERNAL_MARK = "- "  # precedes a name that is not a setting: a result, a fact or a role's own variable
SHARED_PREFIX = "gpufleet"
OTHER_VARIABLES = "gpufleet_other_variables"  # an operator's list of names that are not ours and not misspelt
# The similarity of a misspelt name: of what follows the prefix, or of the whole name. One wrong letter in six passes.
LEAST_TAIL_SIMILARITY = 0.8
LEAST_NAME_SIMILARITY = 0.9


@dataclass(frozen=True)
class KnownVariables:
    """The settings, all other names that are in use, and the prefixes of our names."""

    settings: frozenset[str]
    internal: frozenset[str]
    prefixes: tuple[str, ...]

    def find_prefix(self, name: str) -> str | None:
        """Return the longest of our prefixes that a name begins with, with its underscore."""
        matching = (f"{prefix}_" for prefix in self.prefixes if name.startswith(f"{prefix}_"))
        return max(matching, key=len, default=None)


@cache
def read_known_variables(file: Path = LIST_FILE) -> KnownVariables:
    """Return the list of names that are in use."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    internal = {line.removeprefix(INTERNAL_MARK) for line in lines if line.startswith(INTERNAL_MARK)}
    roles = sorted(folder.name for folder in (COLLECTION / "roles").iterdir() if folder.is_dir())
    return KnownVariables(
        frozenset(line for line in lines if not line.startswith(INTERNAL_MARK)),
        frozenset(internal),
        (SHARED_PREFIX, *roles),
    )


def find_misspelt_settings(names: Iterable[str], known: KnownVariables) -> dict[str, str]:
    """Return the names that nothing reads and that resemble a setting, each with that setting."""
    by_tail: dict[str, list[str]] = {}
    for setting in sorted(known.settings):
        by_tail.setdefault(setting.partition("_")[2], []).append(setting)
    starts = re.compile(f"(?:{'|'.join(known.prefixes)})_")
    suggestions = {}
    for name in names:
        if name in known.settings or name in known.internal:
            continue
        if starts.match(name):
            suggestion = _find_similar_setting(name, known)
        else:
            suggestion = _find_setting_with_other_start(name, by_tail)
        if suggestion:
            suggestions[name] = suggestion
    return suggestions


def format_misspelt_settings(misspelt: dict[str, str]) -> str:
    """Return one line for each misspelt setting."""
    return "\n".join(
        f"{name}: not a setting; did you mean {setting}?" for name, setting in sorted(misspelt.items())
    )


def _find_similar_setting(name: str, known: KnownVariables) -> str | None:
    """Return the most similar setting with the same prefix, if it is similar enough."""
    prefix = known.find_prefix(name)
    if prefix is None:
        return None
    tail = name.removeprefix(prefix)
    if prefix == f"{SHARED_PREFIX}_" and tail in known.settings:
        return tail
    ratings = sorted(_rate_settings(name, prefix, known.settings), reverse=True)
    return ratings[0][1] if ratings else None


def _rate_settings(name: str, prefix: str, settings: Iterable[str]) -> Iterator[tuple[float, str]]:
    """Yield the similarity of each setting with this prefix that is similar enough."""
    for setting in settings:
        if setting.startswith(prefix):
            similarity = SequenceMatcher(None, name, setting).ratio()
            tail = SequenceMatcher(None, name.removeprefix(prefix), setting.removeprefix(prefix)).ratio()
            if tail >= LEAST_TAIL_SIMILARITY or similarity >= LEAST_NAME_SIMILARITY:
                yield similarity, setting


def _find_setting_with_other_start(name: str, by_tail: dict[str, list[str]]) -> str | None:
    """Return the setting that differs only in a similar first word: ``hardning_firewall``."""
    head, separator, tail = name.partition("_")
    for setting in by_tail.get(tail, ()) if separator else ():
        if SequenceMatcher(None, head, setting.partition("_")[0]).ratio() >= LEAST_TAIL_SIMILARITY:
            return setting
    return None

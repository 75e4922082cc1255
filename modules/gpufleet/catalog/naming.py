"""How people's names for accelerators are understood. Pure: names in, catalogue names out.

In order, the first that finds anything decides: the name itself or an alias; the name but for its family
("rtx 3090" is no RTX 3090 Ti); an unambiguous part of it; all its words in any order ("a100 80gb sxm").
Case, punctuation, the maker's name and words such as "GPU" or "cores" never matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SHORTEST_PART = 3  # of two letters, "T5" would mean a Jetson T5000
MEMORY = re.compile(r"(?<![\w.])(\d+)\s*gi?b\b", re.IGNORECASE)
MAKERS = frozenset({"nvidia", "amd", "apple", "intel", "google", "aws", "amazon", "huawei", "raspberrypi"})
IDLE_WORDS = MAKERS | {"gpu", "gpus", "core", "cores", "card", "the", "with", "on"}


def plain(text: str) -> str:
    """Return a name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def candidates(asked: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the catalogue names that ``asked`` may mean; ``names`` maps each to what else it is called."""
    wanted = plain(asked)
    if not wanted:
        return []
    return (
        [name for name, others in names.items() if wanted in {plain(each) for each in (name, *others)}]
        or [name for name in names if _ends(name, asked)]
        or [name for name in names if len(wanted) >= SHORTEST_PART and wanted in plain(name)]
        or [name for name, others in names.items() if _has_words(" ".join((name, *others)), asked)]
    )


def memory_asked(text: str) -> tuple[str, float] | None:
    """Return a name without the memory size in it, and that size in GB; None where it states none."""
    found = MEMORY.search(text)
    if found is None:
        return None
    rest = " ".join(f"{text[: found.start()]} {text[found.end() :]}".replace("()", " ").split())
    return rest, float(found.group(1))


def _ends(name: str, asked: str) -> bool:
    """Tell whether ``asked`` is the end of a name, from the beginning of a word on."""
    ending, whole = _words(asked), _words(name)
    return bool(ending) and len(ending) < len(whole) and whole[-len(ending) :] == ending


def _has_words(name: str, asked: str) -> bool:
    wanted = [word for word in _words(asked) if word not in IDLE_WORDS]
    there = _words(name)
    return bool(wanted) and all(_is_there(word, there) for word in wanted)


def _is_there(word: str, there: list[str]) -> bool:
    if word.isdigit() or len(word) < SHORTEST_PART:
        return word in there
    return any(each.startswith(word) for each in there)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower().replace("+", "plus"))

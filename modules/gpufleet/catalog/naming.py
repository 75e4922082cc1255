"""How people's names for accelerators are understood. Pure: names in, catalogue names out.

In order, the first that finds anything decides:

1. the name itself or an alias, such as what a driver prints ("NVIDIA H100 80GB HBM3");
2. the name but for its family ("rtx 3090");
3. an unambiguous part of it that begins and ends with words ("H200" is no GH200);
4. a part that begins with a word ("inferent");
5. all its words in any order ("a100 80gb sxm").

What is left of the name may tell the memory, the slot or the maker, but never another product: "RTX 4070" is
no RTX 4070 Ti, "MI30" no MI300X. Names that differ in slot or memory alone stay ambiguous, so "H200" asks which.
Case, punctuation, the maker's name and words such as "GPU" or "cores" never matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

SHORTEST_PART = 3  # of two letters that are no word, "T5" would mean a Jetson T5000
MEMORY = re.compile(r"(?<![\w.])(\d+)\s*gi?b\b", re.IGNORECASE)
MAKERS = frozenset({"nvidia", "amd", "apple", "intel", "google", "aws", "amazon", "huawei", "raspberrypi"})
IDLE_WORDS = MAKERS | {"gpu", "gpus", "cpu", "core", "cores", "card", "the", "with", "on", "generation"}
SUFFIXES = frozenset(  # words that make another product of a name
    {"ti", "super", "xt", "xtx", "xl", "gre", "max", "pro", "ultra", "plus", "maxplus", "d", "le", "q"}
    | {"mobile", "laptop", "dual"}
)
BOARDS = {"hgx": "sxm", "dgx": "sxm"}  # such boards carry no other form of a card
COMPUTERS = re.compile(r"\b(mac ?studio|mac ?book ?(pro|air)?|mac ?mini|mac ?pro|imac)\b", re.IGNORECASE)


def plain(text: str) -> str:
    """Return a name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def candidates(asked: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the catalogue names that ``asked`` may mean; ``names`` maps each to what else it is called."""
    for text in dict.fromkeys((asked, _without_makers(asked), _as_part(asked))):
        found = _understood(text, names)
        if found:
            return found
    return []


def near(asked: str, names: Iterable[str]) -> list[str]:
    """Return names that hold what was asked for and are another product: for messages, never for answers."""
    wanted = plain(_as_part(asked))
    return [name for name in names if len(wanted) >= SHORTEST_PART and wanted in plain(name)]


def memory_asked(text: str) -> tuple[str, float] | None:
    """Return a name without the memory size in it, and that size in GB; None where it states none."""
    found = MEMORY.search(text)
    if found is None:
        return None
    rest = " ".join(f"{text[: found.start()]} {text[found.end() :]}".replace("()", " ").split())
    return rest, float(found.group(1))


def is_part(asked: str, name: str, *, whole: bool = False) -> bool:
    """Tell whether ``asked`` stands in a name from the beginning of a word on.

    It never ends between two digits: "30" is no part of "300". ``whole``: it ends where a word does.
    """
    return _rest(plain(asked), words(name), whole=whole) is not None


def words(text: str) -> list[str]:
    """Return the words of a name, in small letters."""
    return re.findall(r"[a-z0-9]+", text.lower().replace("+", "plus"))


def _understood(asked: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    wanted, asked_words = plain(asked), words(asked)
    if not wanted or set(asked_words) <= IDLE_WORDS:
        return []
    return (
        [name for name, others in names.items() if wanted in {plain(each) for each in (name, *others)}]
        or [name for name in names if _ends(name, asked_words)]
        or [name for name in names if _same_product(_rest(wanted, words(name), whole=True))]
        or [name for name in names if len(wanted) >= SHORTEST_PART and _begins(asked_words, name)]
        or [name for name, others in names.items() if _has_words(name, others, asked_words)]
    )


def _without_makers(asked: str) -> str:
    return " ".join(word for word in asked.split() if word.lower() not in MAKERS)


def _as_part(asked: str) -> str:
    """Return the part that a board or computer is named after: an HGX H200 carries H200 SXM."""
    text = COMPUTERS.sub(" ", asked)
    return " ".join(BOARDS.get(word.lower(), word) for word in text.split() if word.lower() not in MAKERS)


def _ends(name: str, ending: list[str]) -> bool:
    """Tell whether ``ending`` is the end of a name, from the beginning of a word on."""
    whole = words(name)
    return bool(ending) and len(ending) < len(whole) and whole[-len(ending) :] == ending


def _begins(asked_words: list[str], name: str) -> bool:
    """Tell whether the words stand in a name, the last of them perhaps in part; a suffix is never in part."""
    whole = bool(asked_words) and asked_words[-1] in SUFFIXES
    return _same_product(_rest("".join(asked_words), words(name), whole=whole))


def _rest(wanted: str, name: list[str], *, whole: bool) -> list[str] | None:
    """Return the words of a name behind ``wanted``, None where it does not stand there from a word on."""
    for start in range(len(name)):
        text = "".join(name[start:])
        if text.startswith(wanted) and not (wanted[-1:].isdigit() and _cuts(name[start:], len(wanted))):
            behind = _behind(name[start:], len(wanted))
            if behind is not None or not whole:
                return behind or []
    return None


def _cuts(name: list[str], length: int) -> bool:
    """Tell whether a part of that length would end between two digits of one word."""
    text = "".join(name)
    return length < len(text) and text[length].isdigit() and _behind(name, length) is None


def _behind(name: list[str], length: int) -> list[str] | None:
    """Return the words behind so many letters, None where these end inside a word."""
    for at, word in enumerate(name):
        if length == 0:
            return name[at:]
        length -= len(word)
        if length < 0:
            return None
    return []


def _same_product(rest: list[str] | None) -> bool:
    return rest is not None and not SUFFIXES.intersection(rest)


def _has_words(name: str, others: Iterable[str], asked_words: list[str]) -> bool:
    wanted = [word for word in asked_words if word not in IDLE_WORDS]
    there = [word for text in (name, *others) for word in words(text)]
    lacking = SUFFIXES.intersection(words(name)) - set(wanted)
    return bool(wanted) and not lacking and all(_is_there(word, there) for word in wanted)


def _is_there(word: str, there: list[str]) -> bool:
    if word.isdigit() or len(word) < SHORTEST_PART or word in SUFFIXES:
        return word in there
    return any(each.startswith(word) and not _glued(word, each) for each in there)


def _glued(word: str, name: str) -> bool:
    return word[-1].isdigit() and name[len(word) : len(word) + 1].isdigit()

"""Match the names that people use for accelerators. Pure: names in, catalogue names out.

The first of these steps with a match decides:

1. the name itself or an alias, such as the driver's name ("NVIDIA H100 80GB HBM3");
2. the name without its family ("rtx 3090");
3. a part that begins and ends at a word boundary ("H200" does not match GH200);
4. a part that begins at a word boundary ("inferent");
5. all its words in any order ("a100 80gb sxm").

The rest of the name may be a memory size, form factor or vendor, but never another product: "RTX 4070" does not match
RTX 4070 Ti, and "MI30" does not match MI300X. Names that differ only in form factor or memory are ambiguous.
Case, punctuation, the vendor's name and words such as "GPU" or "cores" are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

WORD_SIMILARITY = 0.75  # of a misspelt word: H1000 means H100
MIN_PART_LENGTH = 3  # shorter parts match too much: "T5" would match a Jetson T5000
MEMORY_SIZE = re.compile(r"(?<![\w.])(\d+)\s*gi?b\b", re.IGNORECASE)
VENDORS = frozenset({"nvidia", "amd", "apple", "intel", "google", "aws", "amazon", "huawei", "raspberrypi"})
IGNORED_WORDS = VENDORS | {"gpu", "gpus", "cpu", "core", "cores", "card", "the", "with", "on", "generation"}
PRODUCT_SUFFIXES = frozenset(  # words that make a name another product
    {"ti", "super", "xt", "xtx", "xl", "gre", "max", "pro", "ultra", "plus", "maxplus", "d", "le", "q"}
    | {"mobile", "laptop", "dual"}
)
BOARD_FORM_FACTORS = {"hgx": "sxm", "dgx": "sxm"}  # these boards carry no other form factor
COMPUTER_NAMES = re.compile(r"\b(mac ?studio|mac ?book ?(pro|air)?|mac ?mini|mac ?pro|imac)\b", re.IGNORECASE)


def normalize_name(text: str) -> str:
    """Return a name in lower case without punctuation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def find_matching_names(query: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the catalogue names that match; ``names`` maps each name to its aliases."""
    for text in dict.fromkeys((query, _remove_vendors(query), _replace_board_names(query))):
        matches = _match_query(text, names)
        if matches:
            return matches
    return []


def find_similar_names(query: str, names: Iterable[str]) -> list[str]:
    """Return names that contain the query but are another product, or a word like it; only for messages."""
    normalized, known_names = normalize_name(_replace_board_names(query)), list(names)
    if len(normalized) < MIN_PART_LENGTH:
        return []
    from difflib import get_close_matches  # only for messages

    words = {word for name in known_names for word in split_name_words(name)}
    closest = get_close_matches(normalized, words, n=1, cutoff=WORD_SIMILARITY)
    # With the last letter wrong, L40X is as near to L40S as to L40.
    similar = {*closest, *(w for w in words if len(w) == len(normalized) and w.startswith(tuple(closest)))}
    return [name for name in known_names if normalized in normalize_name(name)] or [
        name for name in known_names if not similar.isdisjoint(split_name_words(name))
    ]


def split_memory_size(text: str) -> tuple[str, float] | None:
    """Return a name without its memory size, and that size in GB; None if it has none."""
    match = MEMORY_SIZE.search(text)
    if match is None:
        return None
    name = " ".join(f"{text[: match.start()]} {text[match.end() :]}".replace("()", " ").split())
    return name, float(match.group(1))


def is_part_of_name(query: str, name: str, *, matches_full_words: bool = False) -> bool:
    """Return whether a name contains the query from a word boundary on.

    A match never ends between two digits: "30" does not match "300". ``matches_full_words``: it ends at
    a word boundary.
    """
    return (
        _words_after(normalize_name(query), split_name_words(name), whole_word=matches_full_words) is not None
    )


def split_name_words(text: str) -> list[str]:
    """Return the words of a name in lower case."""
    return re.findall(r"[a-z0-9]+", text.lower().replace("+", "plus"))


def _match_query(query: str, names: Mapping[str, Iterable[str]]) -> list[str]:
    normalized, query_words = normalize_name(query), split_name_words(query)
    if not normalized or set(query_words) <= IGNORED_WORDS:
        return []
    return (
        [
            name
            for name, aliases in names.items()
            if normalized in {normalize_name(form) for form in (name, *aliases)}
        ]
        or [name for name in names if _ends_with(name, query_words)]
        or [
            name
            for name in names
            if _is_same_product(_words_after(normalized, split_name_words(name), whole_word=True))
        ]
        or [name for name in names if len(normalized) >= MIN_PART_LENGTH and _begins_with(query_words, name)]
        or [name for name, aliases in names.items() if _has_words(name, aliases, query_words)]
    )


def _remove_vendors(query: str) -> str:
    return " ".join(token for token in query.split() if token.lower() not in VENDORS)


def _replace_board_names(query: str) -> str:
    """Return the name of the part on a board or in a computer: an HGX H200 carries H200 SXM."""
    text = COMPUTER_NAMES.sub(" ", query)
    return " ".join(
        BOARD_FORM_FACTORS.get(token.lower(), token) for token in text.split() if token.lower() not in VENDORS
    )


def _ends_with(name: str, ending: list[str]) -> bool:
    """Return whether a name ends with the words ``ending``."""
    name_words = split_name_words(name)
    return bool(ending) and len(ending) < len(name_words) and name_words[-len(ending) :] == ending


def _begins_with(query_words: list[str], name: str) -> bool:
    """Return whether a name contains the words; the last may be incomplete unless it is a suffix."""
    whole_word = bool(query_words) and query_words[-1] in PRODUCT_SUFFIXES
    return _is_same_product(_words_after("".join(query_words), split_name_words(name), whole_word=whole_word))


def _words_after(query: str, name_words: list[str], *, whole_word: bool) -> list[str] | None:
    """Return the words of a name after the query, None if no word boundary starts it."""
    for start in range(len(name_words)):
        text = "".join(name_words[start:])
        if text.startswith(query) and not (
            query[-1:].isdigit() and _splits_number(name_words[start:], len(query))
        ):
            words_after = _skip_letters(name_words[start:], len(query))
            if words_after is not None or not whole_word:
                return words_after or []
    return None


def _splits_number(name_words: list[str], length: int) -> bool:
    """Return whether a part of that length ends between two digits of one word."""
    text = "".join(name_words)
    return length < len(text) and text[length].isdigit() and _skip_letters(name_words, length) is None


def _skip_letters(name_words: list[str], length: int) -> list[str] | None:
    """Return the words after so many letters, None if these end inside a word."""
    for index, name_word in enumerate(name_words):
        if length == 0:
            return name_words[index:]
        length -= len(name_word)
        if length < 0:
            return None
    return []


def _is_same_product(words_after: list[str] | None) -> bool:
    return words_after is not None and not PRODUCT_SUFFIXES.intersection(words_after)


def _has_words(name: str, aliases: Iterable[str], query_words: list[str]) -> bool:
    required_words = [token for token in query_words if token not in IGNORED_WORDS]
    name_words = [token for text in (name, *aliases) for token in split_name_words(text)]
    missing_suffixes = PRODUCT_SUFFIXES.intersection(split_name_words(name)) - set(required_words)
    return (
        bool(required_words)
        and not missing_suffixes
        and all(_matches_any(token, name_words) for token in required_words)
    )


def _matches_any(query_word: str, name_words: list[str]) -> bool:
    if query_word.isdigit() or len(query_word) < MIN_PART_LENGTH or query_word in PRODUCT_SUFFIXES:
        return query_word in name_words
    return any(
        name_word.startswith(query_word) and not _continues_number(query_word, name_word)
        for name_word in name_words
    )


def _continues_number(query_word: str, name_word: str) -> bool:
    return query_word[-1].isdigit() and name_word[len(query_word) : len(query_word) + 1].isdigit()

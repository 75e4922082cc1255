"""Find the known name that a misspelt one means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

LONGEST_NAME = 80  # characters of a name that is compared with all known ones
MAX_TIES = 3
CUTOFF = 0.8  # a new machine or region must not be taken for a distant one


def find_similar_names(name: str, known_names: Iterable[str], cutoff: float = CUTOFF) -> tuple[str, ...]:
    """Return the known names that are equally and most like a name, whatever its case; none if the name is known."""
    by_lowercase = {known.lower(): known for known in known_names}
    if len(name) > LONGEST_NAME or name in by_lowercase.values():
        return ()
    lowercase = name.lower()
    matches = get_close_matches(lowercase, by_lowercase, n=MAX_TIES, cutoff=cutoff)
    # us-esat-1 is as close to us-west-1, but two swapped letters are the likelier mistake
    swapped = [match for match in matches if sorted(match) == sorted(lowercase)]
    likeness = {match: SequenceMatcher(None, match, lowercase).ratio() for match in swapped or matches}
    best = max(likeness.values(), default=0.0)
    return tuple(sorted(by_lowercase[match] for match, ratio in likeness.items() if ratio == best))


def ask_about_names(names: tuple[str, ...]) -> str:
    """Return "did you mean eastus or westus?", empty without names."""
    return f"did you mean {' or '.join(names)}?" if names else ""

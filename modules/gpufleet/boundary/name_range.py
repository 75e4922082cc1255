"""Ranges of names, such as ``blade[01-20]``, that people type or declare: counted before they are expanded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from gpufleet.errors import InputError

REMEDY = "write a range like blade[01-20]"
_PLAIN = re.compile(r"[\w.-]+")  # other signs mean something to ClusterShell: !, @, &, *, [1-3]
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COMMA_OUTSIDE = re.compile(r",(?![^\[\]]*\])")
# ClusterShell strips blanks and reads numbers as Python does (+5, 5_000): what is counted must be what it reads.
_NUMBER = "[0-9]{1,9}"
_PART = re.compile(f"({_NUMBER})(?:-({_NUMBER})(?:/{_NUMBER})?)?")


def expand_name_range(names: str, max_names: int) -> tuple[str, ...]:
    """Return the names of a ClusterShell range; InputError for what is none, or for more than ``max_names``."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

    if count_names_at_most(names) > max_names:
        raise InputError(f"{names[:60]!r} is more than {max_names} names", remedy="write a smaller range")
    try:
        # No groups: a name must not make ClusterShell run the group commands of its configuration.
        return tuple(NodeSet(names, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise InputError(f"{names[:60]!r} is not a range of names", remedy=REMEDY) from error


def fold_names_to_ranges(names: Iterable[str]) -> str:
    """Return names as ranges, ``blade[01-03],bench01``; a text that is no host's name stays as it is, at the end."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    listed = sorted(names)
    plain = [name for name in listed if _PLAIN.fullmatch(name)]
    # No groups: a name must not make ClusterShell run the group commands of its configuration.
    folded = str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP))
    return ",".join([*([folded] if plain else []), *(name for name in listed if not _PLAIN.fullmatch(name))])


def count_names_at_most(names: str) -> int:
    """Return an upper bound without expanding anything: ClusterShell keeps every number of a range in memory.

    Raise InputError for brackets without numbers or ranges of at most 9 digits.
    """
    terms = _COMMA_OUTSIDE.split(names)
    return sum(prod(_count_numbers(group) for group in _BRACKETS.findall(term)) for term in terms)


def _count_numbers(group: str) -> int:
    """Return how many numbers the parts between two brackets have together, a step not considered."""
    sizes = []
    for part in group.split(","):
        numbers = _PART.fullmatch(part)
        if numbers is None:
            raise InputError(
                f"{part[:60]!r} is not a number or range in the brackets of a range of names",
                remedy="write numbers of at most 9 digits without blanks, like blade[01-20]",
            )
        sizes.append(max(1, int(numbers[2] or numbers[1]) - int(numbers[1]) + 1))
    return sum(sizes)

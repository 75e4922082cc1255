"""Which cards each container of an application gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gpufleet.fleet import Container

Cards = tuple[int, ...] | None  # None: all of them


def allot(containers: Sequence[Container]) -> dict[str, Cards]:
    """Return the cards of each container that asks for some, by its name.

    Named cards come first. Counted ones are the next that nobody named, in the order of the containers, so that an
    application means the same on every node and at every start.
    """
    named = {number for each in containers if isinstance(each.gpus, tuple) for number in each.gpus}
    free = (number for number in count() if number not in named)
    found: dict[str, Cards] = {}
    for each in containers:
        if each.gpus == "all":
            found[each.called] = None
        elif isinstance(each.gpus, tuple):
            found[each.called] = each.gpus
        elif isinstance(each.gpus, int):
            found[each.called] = tuple(next(free) for _ in range(each.gpus))
    return found

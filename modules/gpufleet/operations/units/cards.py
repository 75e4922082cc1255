"""Which cards each container of an application gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gpufleet.fleet import Container

Cards = tuple[int, ...] | None  # None: all of them


def assign_gpu_cards(containers: Sequence[Container]) -> dict[str, Cards]:
    """Return the cards of each container that asks for some, by its name.

    Named cards come first. Counted ones are the next that no container names, in the order of the containers, so that
    an application means the same on every node and at every start.
    """
    named_cards = {
        number for container in containers if isinstance(container.gpus, tuple) for number in container.gpus
    }
    free_cards = (number for number in count() if number not in named_cards)
    cards_by_container: dict[str, Cards] = {}
    for container in containers:
        if container.gpus == "all":
            cards_by_container[container.effective_name] = None
        elif isinstance(container.gpus, tuple):
            cards_by_container[container.effective_name] = container.gpus
        elif isinstance(container.gpus, int):
            cards_by_container[container.effective_name] = tuple(
                next(free_cards) for _ in range(container.gpus)
            )
    return cards_by_container

"""A node's lifecycle: the states of ``data/states.csv``, their properties, and the holds that block use in any state.

Everything else that depends on states derives from ``STATES``: the legal moves, Ansible's host variables, the
report's colours. Reachability is a fact with a time, not a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from gpufleet.boundary import read_table
from gpufleet.errors import InputError

LeftBy = Literal["operation", "verdict", "person", "nothing"]


@dataclass(frozen=True, slots=True)
class NodeState:
    """One state of a node. Its name has at most 16 characters (a column); ``STATES`` has the order of a node's life.

    ``next_states``: the states that it may become; a person may always make such a move.
    ``left_by``: what moves a node out of it: an operation (``nodes sync``, ``configure``) as the node answers, the
    verdict of a burn-in, only a person, or nothing.
    ``is_new``: on the way to ``ready``; ``configure`` burns such nodes in without being asked.
    ``is_busy``: a job may run there; nothing load-tests or restarts such a node.
    ``is_usable``: work may be placed there unless a hold blocks it.
    ``needs_attention``: a person must look at the node; no measurement, not even a healthy one, ends the state.
    """

    name: str
    meaning: str
    next_states: tuple[str, ...]
    left_by: LeftBy
    is_new: bool
    is_busy: bool
    is_usable: bool
    needs_attention: bool


STATES: dict[str, NodeState] = {
    state.name: state for state in read_table(NodeState, "gpufleet.nodes", "data/states.csv")
}
"""Every state by its name. New nodes move through the states with ``is_new`` in this order."""

NEW_STATES: tuple[str, ...] = tuple(state.name for state in STATES.values() if state.is_new)
BUSY_STATES: tuple[str, ...] = tuple(state.name for state in STATES.values() if state.is_busy)
USABLE_STATES: tuple[str, ...] = tuple(state.name for state in STATES.values() if state.is_usable)
ATTENTION_STATES: tuple[str, ...] = tuple(state.name for state in STATES.values() if state.needs_attention)

HOLDS: tuple[str, ...] = ("drift", "cost", "security", "operator")
BURN_IN_HOLD = "burn-in: "
"""How the reason of a hold begins that burn-in set: a healthy burn-in releases it."""
WATCH_HOLD = "watch: "
"""How the reason of a hold begins that the watch set: a healthy burn-in that began after it releases it."""

VERDICT_MOVES: dict[str, tuple[str, str | None]] = {
    "healthy": ("ready", None),
    "degraded": ("ready", "operator"),
    "faulty": ("quarantined", None),
    "incomplete": ("burn_in", None),
}
"""For each burn-in verdict the state that the node moves to, and the hold that it sets, if any."""


def check_state_change(node_name: str, old_state: str, new_state: str) -> None:
    """Raise InputError, naming the legal moves, unless ``old_state`` may become ``new_state``."""
    if new_state not in STATES:
        close = get_close_matches(new_state.lower(), STATES, n=1)
        raise InputError(
            f"unknown state {new_state!r}",
            where=node_name,
            key="state",
            remedy=f"did you mean {close[0]}?" if close else f"states: {', '.join(STATES)}",
        )
    if new_state in STATES[old_state].next_states:
        return
    legal = ", ".join(STATES[old_state].next_states) or "no other state: it is final"
    raise InputError(
        f"{old_state} cannot become {new_state}",
        where=node_name,
        key="state",
        remedy=f"from {old_state}: {legal}",
    )


def check_hold_kind(node_name: str, kind: str) -> None:
    """Raise InputError unless ``kind`` is one of ``HOLDS``."""
    if kind not in HOLDS:
        raise InputError(
            f"unknown hold {kind!r}", where=node_name, key="hold", remedy=f"holds: {', '.join(HOLDS)}"
        )

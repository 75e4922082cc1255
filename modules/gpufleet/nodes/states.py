"""A node's lifecycle: the states, the one table of legal moves, and what stands beside the state.

Reachability is a fact with a time, not a state; holds block use without changing the state.
"""

from __future__ import annotations

from gpufleet.errors import InputError

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "expected": ("discovered", "retired"),
    "discovered": ("commissioning", "quarantined", "retired"),
    "commissioning": ("burn_in", "quarantined", "repair", "retired"),
    "burn_in": ("ready", "commissioning", "quarantined", "repair", "retired"),
    "ready": ("assigned", "draining", "commissioning", "burn_in", "quarantined"),
    "assigned": ("draining", "quarantined"),
    "draining": ("ready", "quarantined", "repair", "retired"),
    "quarantined": ("commissioning", "burn_in", "repair", "retired"),
    "repair": ("commissioning", "burn_in", "retired"),
    "retired": (),
}
"""From each state, the states it may become. Read it by eye: nothing reaches ``ready`` but burn-in or a drain."""

STATES: tuple[str, ...] = tuple(TRANSITIONS)

NEW_STATES: tuple[str, ...] = ("expected", "discovered", "commissioning", "burn_in")
"""States of a node that has not earned ``ready`` yet."""

HOLDS: tuple[str, ...] = ("drift", "cost", "security", "operator")

VERDICT_MOVES: dict[str, tuple[str, str | None]] = {
    "healthy": ("ready", None),
    "degraded": ("ready", "operator"),
    "faulty": ("quarantined", None),
    "incomplete": ("burn_in", None),
}
"""What a burn-in verdict does: the state that follows and the hold that goes with it."""


def check_move(node: str, old: str, new: str) -> None:
    """Raise InputError, naming the legal moves, unless ``old`` may become ``new``."""
    if new not in TRANSITIONS:
        raise InputError(f"no state {new!r}", where=node, key="state", remedy=f"states: {', '.join(STATES)}")
    if new in TRANSITIONS[old]:
        return
    legal = ", ".join(TRANSITIONS[old]) or "none, it is final"
    raise InputError(f"{old} cannot become {new}", where=node, key="state", remedy=f"from {old}: {legal}")


def check_hold(node: str, kind: str) -> None:
    """Raise InputError unless ``kind`` is a hold we know."""
    if kind not in HOLDS:
        raise InputError(f"no hold {kind!r}", where=node, key="hold", remedy=f"holds: {', '.join(HOLDS)}")

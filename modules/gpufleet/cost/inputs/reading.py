"""What readers of inputs found unreadable while a pricer ran, and stand-ins that show what depends on it.

An input is unreadable if it is unknown until deployment, a secret, or of another kind than the one that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from gpufleet.engine import UnreadableValue

MAPPING_TYPES, LIST_TYPES = (dict, Mapping), (list, Sequence)  # the concrete type first: it is checked faster
Path = Sequence[str | int]
T = TypeVar("T")
Place = tuple[int, str | int]  # the identity of a container, and a key or index in it


@dataclass(frozen=True)
class StandIns:
    """What readers return for unreadable inputs, so that a pricer goes on."""

    text: str
    number: Decimal
    flag: bool
    entries: tuple[UnreadableValue, ...]


# Not 1, which is often what an absent number counts as. What comes out alike with both depends on no unreadable input.
STAND_INS = (
    StandIns("unreadable-1", Decimal(2), flag=True, entries=(UnreadableValue.UNKNOWN,)),
    StandIns("unreadable-2", Decimal(3), flag=False, entries=()),
)


@dataclass
class Reading:
    """The unreadable inputs that a pricer asks for, by name.

    ``stand_ins`` are what readers return for them, None for a marker or, where there is none, for an absent input.
    """

    stand_ins: StandIns | None = None
    has_unreadable: bool = False
    names: set[str] = field(default_factory=set)
    _ignored: dict[Place, tuple[str, str]] = field(default_factory=dict)
    _reported: set[Place] = field(default_factory=set)
    _containers: list[Any] = field(default_factory=list)  # kept, so that no identity is used twice

    def add(self, path: Path) -> None:
        """Record that the input at ``path`` is unreadable."""
        self.has_unreadable = True
        self.names.update([step for step in path if isinstance(step, str)][-1:])

    def add_ignored(self, inputs: Any, path: Path, reason: str) -> None:
        """Record that a reader takes the unreadable input at ``path`` for absent."""
        self.add(path)
        place, name = self._find_place(inputs, path)
        self._ignored.setdefault(place, (name, reason))

    def mark_reported(self, inputs: Any, path: Path) -> None:
        """Record that the pricer itself reports the unreadable input at ``path``."""
        self.add(path)
        self._reported.add(self._find_place(inputs, path)[0])

    def list_names(self) -> str:
        """Return the unreadable inputs as a text."""
        return ", ".join(sorted(self.names)) or "an input that cannot be read"

    def list_ignored(self) -> dict[str, str]:
        """Return why each input that was taken for absent is unreadable, without those that the pricer reports."""
        return dict(found for place, found in self._ignored.items() if place not in self._reported)

    def _find_place(self, inputs: Any, path: Path) -> tuple[Place, str]:
        """Return the place of the input at ``path``, or of the unreadable one that it would be in, and its name."""
        place: Place = (id(inputs), "")
        container, name = inputs, ""
        for step in path:
            name = step if isinstance(step, str) else name
            place = (id(container), step)
            self._containers.append(container)
            container = step_into(container, step)
            if container is None or isinstance(container, UnreadableValue):
                break
        return place, name


def step_into(value: Any, step: str | int) -> Any:
    """Return what is in a container, None if there is nothing; in a value of another kind everything is unknown."""
    if isinstance(step, int) and is_list(value):
        return value[step] if len(value) > step else None
    return value.get(step) if isinstance(value, MAPPING_TYPES) else UnreadableValue.UNKNOWN


def is_list(value: Any) -> bool:
    """Return whether a value is a list."""
    return isinstance(value, LIST_TYPES) and not isinstance(value, str)


_reading: ContextVar[Reading | None] = ContextVar("reading", default=None)
find_reading = _reading.get


def stand_in_for_absent(description: str) -> StandIns | None:
    """Return the stand-ins for a required input that is absent, and record it; None without stand-ins."""
    reading = find_reading()
    if reading is None:
        return None
    reading.has_unreadable = True
    reading.names.add(description)
    return reading.stand_ins


def call_with_reading(function: Callable[[], T], stand_ins: StandIns | None = None) -> tuple[T, Reading]:
    """Return what a function returns, and what it finds unreadable."""
    reading = Reading(stand_ins)
    token = _reading.set(reading)
    try:
        return function(), reading
    finally:
        _reading.reset(token)

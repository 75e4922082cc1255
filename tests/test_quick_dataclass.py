"""Quick dataclasses: the same answers as the standard library's, on the same class body."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pytest

from gpufleet import quick_dataclass


class Body:
    name: str
    size: float
    words: tuple[str, ...] = ()
    extra: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    seen: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)

    @cached_property
    def double(self) -> float:
        """Twice the size."""
        return self.size * 2


def _make_class(decorator: Any) -> Any:
    body = {name: value for name, value in vars(Body).items() if name not in ("__dict__", "__weakref__")}
    cls = type("Part", (), {**body, "__qualname__": "Part"})
    cls.__dict__["double"].__set_name__(cls, "double")
    return decorator(frozen=True)(cls)


QUICK = _make_class(quick_dataclass.dataclass)
STANDARD = _make_class(dataclasses.dataclass)
Part = QUICK  # pickle finds it by this name


@pytest.mark.parametrize("make", [QUICK, STANDARD])
@pytest.mark.parametrize("made", [0, quick_dataclass.MANY])
def test_values(make: Any, made: int) -> None:
    for _ in range(made):
        make("a", 1.0)
    part = make("a", size=2.0)
    assert (part.name, part.size, part.words, part.extra, part.seen, part.double) == (
        "a",
        2.0,
        (),
        {},
        [],
        4.0,
    )
    assert repr(part) == "Part(name='a', size=2.0, words=(), extra={})"
    assert part == make("a", 2.0, seen=[1]) != make("a", 2.0, extra={"x": 1})
    assert part != ("a", 2.0, (), {})
    assert hash(part) == hash(make("a", 2.0, extra={"x": 1})) == hash(STANDARD("a", 2.0))
    assert dataclasses.replace(part, size=3.0) == make("a", 3.0)
    assert [each.name for each in dataclasses.fields(part)] == ["name", "size", "words", "extra", "seen"]
    assert dataclasses.asdict(part) == {"name": "a", "size": 2.0, "words": (), "extra": {}, "seen": []}
    assert make("a", 2.0).extra is not make("a", 2.0).extra


@pytest.mark.parametrize("make", [QUICK, STANDARD])
@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a",), {}),
        ((), {"size": 1.0}),
        (("a", 1.0, (), {}, [], 0), {}),
        (("a", 1.0), {"size": 2.0}),
        (("a",), {"sise": 1.0}),
        (("a", 1.0), {"other": 1.0}),
    ],
)
def test_wrong_arguments_are_refused(make: Any, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        make(*values, **named)


@pytest.mark.parametrize("make", [QUICK, STANDARD])
def test_nothing_changes_afterwards(make: Any) -> None:
    part = make("a", 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.size = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        del part.size
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataclasses.replace(part).other = 1


def test_copies() -> None:
    part = QUICK("a", 1.0, ("x",))
    assert hash(part) == hash(copy.copy(part))
    assert vars(pickle.loads(pickle.dumps(part))).keys() == {each.name for each in dataclasses.fields(part)}
    assert copy.deepcopy(part) == part == copy.copy(part) == pickle.loads(pickle.dumps(part))


def test_a_class_that_may_change_is_refused() -> None:
    with pytest.raises(TypeError, match="must be frozen"):
        quick_dataclass.dataclass(frozen=False)

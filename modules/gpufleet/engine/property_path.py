"""Paths of inputs (``ignoreChanges``) and what the engine does with them.

The engine resets an ignored path of the new inputs to its value in the old ones. It creates no place on the way and
changes the length of no list; a path that it cannot follow ignores nothing. These are the rules of
``PropertyPath.Reset`` of Pulumi 3.258. A ``*`` follows every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

Path = tuple[str | int, ...]


def parse_property_path(text: str) -> Path | None:
    """Return the keys and indexes of a path such as ``a.b[0]["c.d"]``; None if the engine does not read it."""
    if text.startswith("."):
        return None
    elements: list[str | int] = []
    rest = text
    while rest:
        if rest[0] == "[":
            parsed = _parse_brackets(rest)
            if parsed is None:
                return None
            element, rest = parsed
            elements.append(element)
            continue
        if rest[0] == ".":
            rest = rest[1:]
            if not rest:
                return None
            continue
        end = min((at for at in (rest.find("."), rest.find("[")) if at >= 0), default=len(rest))
        elements.append(rest[:end])
        rest = rest[end:]
    return tuple(elements)


def _parse_brackets(rest: str) -> tuple[str | int, str] | None:
    """Return the element of ``["key"]``, ``[0]`` or ``[*]`` and what follows it; None if it is malformed."""
    if rest.startswith('["'):
        key, at = [], 2
        while at < len(rest) and rest[at] != '"':
            at += rest.startswith('\\"', at)
            key.append(rest[at])
            at += 1
        return ("".join(key), rest[at + 2 :]) if rest[at : at + 2] == '"]' else None
    inner, bracket, after = rest[1:].partition("]")
    if not bracket:
        return None
    if inner == "*":
        return "*", after
    digits = inner.removeprefix("-").removeprefix("+") if inner[:1] in ("-", "+") else inner
    return (int(inner), after) if digits.isascii() and digits.isdecimal() else None


def reset_ignored_inputs(
    new: Mapping[str, Any], old: Mapping[str, Any], paths: Iterable[str]
) -> dict[str, Any]:
    """Return the new inputs with the old values at the ignored paths."""
    inputs = deepcopy(dict(new))
    for text in paths:
        path = parse_property_path(text)
        if path:
            _reset(path, dict(old), inputs)
    return inputs


def _reset(path: Path, old: Any, new: Any) -> bool:
    """Reset one path in ``new``; False if it cannot be followed, after which parts may be reset already."""
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return _reset_index(key, rest, old, new)
    if key == "*":
        return _reset_all(rest, old, new)
    if not rest:
        return _reset_key(key, old, new)
    if not isinstance(old, Mapping) or not isinstance(new, dict):
        return not isinstance(old, Mapping) and not isinstance(new, dict)
    if key not in new:
        return key not in old
    return _reset(rest, old.get(key), new[key])


def _reset_key(key: str, old: Any, new: Any) -> bool:
    if isinstance(old, Mapping) and key in old:
        if not isinstance(new, dict):
            return False
        new[key] = deepcopy(old[key])
    elif isinstance(new, dict):
        new.pop(key, None)
    return True


def _reset_index(index: int, rest: Path, old: Any, new: Any) -> bool:
    if index < 0:
        return False
    if not isinstance(old, list) or not isinstance(new, list):
        return not isinstance(old, list) and not isinstance(new, list)
    if index >= len(old) or index >= len(new):
        return not rest and index >= len(old) and index >= len(new)
    if rest:
        return _reset(rest, old[index], new[index])
    new[index] = deepcopy(old[index])
    return True


def _reset_all(rest: Path, old: Any, new: Any) -> bool:
    if isinstance(new, dict):
        return _reset_all_keys(rest, old, new)
    if not isinstance(new, list):
        return False
    if not isinstance(old, list):
        return not rest
    for index, value in enumerate(old[: len(new)]):
        if not rest:
            new[index] = deepcopy(value)
        elif not _reset(rest, value, new[index]):
            return False
    return len(old) == len(new)


def _reset_all_keys(rest: Path, old: Any, new: dict[str, Any]) -> bool:
    if not isinstance(old, Mapping):
        return not rest
    if not rest:
        new.clear()
        new |= deepcopy(dict(old))
        return True
    return all(key in new and _reset(rest, value, new[key]) for key, value in old.items())

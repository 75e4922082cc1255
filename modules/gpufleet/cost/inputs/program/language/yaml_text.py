"""Texts of Pulumi YAML: ``a-${name.list[0]["key"]}-$${not}``."""

from __future__ import annotations

import re
from typing import NamedTuple

Access = str | int
Path = list[Access]
NAME_END = re.compile(r"[.\[}]")


class Part(NamedTuple):
    """A text, and the path of the value that follows it; empty at the end."""

    text: str
    path: Path


def split_interpolation(text: str) -> list[Part]:
    """Return the parts of a text; raise ValueError if an interpolation is not closed or not a path."""
    if "$" not in text:
        return [Part(text, [])]
    parts: list[Part] = []
    plain: list[str] = []
    position = 0
    while position < len(text):
        if text.startswith("$$", position):
            plain.append("$")
            position += 2
        elif text.startswith("${", position):
            path, position = _read_path(text, position + 2)
            parts.append(Part("".join(plain), path))
            plain = []
        else:
            plain.append(text[position])
            position += 1
    if plain or not parts:
        parts.append(Part("".join(plain), []))
    return parts


def _read_path(text: str, position: int) -> tuple[Path, int]:
    """Return the path that starts at a position, and where its closing brace ends."""
    path: Path = []
    while position < len(text):
        character = text[position]
        if character == "}":
            if not path:
                raise ValueError("an interpolation is empty")
            return path, position + 1
        if character == ".":
            position += 1
        elif character == "[":
            step, position = _read_subscript(text, position + 1)
            if not path and isinstance(step, int):
                raise ValueError("the root property must be a name")
            path.append(step)
        else:
            end = NAME_END.search(text, position)
            stop = end.start() if end else len(text)
            path.append(text[position:stop])
            position = stop
    raise ValueError("an interpolation is not closed")


def _read_subscript(text: str, position: int) -> tuple[Access, int]:
    """Return what is in brackets, a text in quotes or a number, and where the brackets end."""
    if text.startswith('"', position):
        match = re.compile(r'"((?:\\"|[^"])*)"\]').match(text, position)
        if match is None:
            raise ValueError("a property in brackets is not closed")
        return match[1].replace('\\"', '"'), match.end()
    match = re.compile(r"(\d{1,9})\]").match(text, position)
    if match is None:
        raise ValueError("brackets must have a number or a text in quotes")
    return int(match[1]), match.end()

"""Check inputs against the generated schema of a cloud: names, necessity, types and enums at every depth. Pure.

``data/schema/<cloud>.json`` describes a type as a short text; ``generation/sdk_schema.py`` documents the notation.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.rehearsal.providers.property_values import UNKNOWN

Problem = tuple[str, str]  # path of the property, reason
_BOOLEANS = ("true", "false")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NAMES = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


@dataclass(frozen=True)
class InputSchema:
    """The inputs of one cloud's resource types; ``converts_text`` as Terraform's SDK does with "true" and "4"."""

    types: Mapping[str, Mapping[str, str]]
    objects: Mapping[str, Mapping[str, str]]
    enums: Mapping[str, list[str]]
    converts_text: bool

    def find_problems(self, token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield (path, reason) for every input that the resource type does not have or does not take."""
        if token in self.types:
            yield from self._check_object(self.types[token], inputs, "", token)

    def _check_object(
        self, properties: Mapping[str, str], values: Mapping[str, Any], path: str, owner: str
    ) -> Iterator[Problem]:
        for key, value in values.items():
            place = f"{path}.{key}" if path else key
            if key not in properties:
                yield place, _describe_unknown(key, owner, properties)
            else:
                yield from self._check_value(properties[key].removesuffix("!"), value, place)
        for key, text in properties.items():
            if text.endswith("!") and key not in values:
                yield (f"{path}.{key}" if path else key), f"missing required property {key!r}"

    def _check_value(self, text: str, value: Any, path: str) -> Iterator[Problem]:
        if value == UNKNOWN or value is None or text == "any":
            return
        kind = text[0]
        if "|" in text:
            yield from self._check_alternatives(text.split("|"), value, path)
        elif kind == "[":
            yield from self._check_list(text[1:-1], value, path)
        elif kind == "{":
            yield from self._check_map(text[1:-1], value, path)
        elif kind == "#":
            yield from self._check_nested_object(text[1:], value, path)
        elif kind == "=":
            yield from self._check_enum(self.enums[text[1:]], value, path)
        elif not self._is_primitive(text, value):
            yield path, f"expected {_NAMES[text]}, got {_describe_value(value)}"

    def _check_alternatives(self, texts: list[str], value: Any, path: str) -> Iterator[Problem]:
        attempts = [list(self._check_value(text, value, path)) for text in texts]
        if all(attempts):
            yield from min(attempts, key=len)

    def _check_list(self, text: str, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield path, f"expected a list, got {_describe_value(value)}"
            return
        for index, item in enumerate(value):
            yield from self._check_value(text, item, f"{path}[{index}]")

    def _check_map(self, text: str, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield path, f"expected a map, got {_describe_value(value)}"
            return
        for key, item in value.items():
            yield from self._check_value(text, item, f"{path}.{key}")

    def _check_nested_object(self, name: str, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield path, f"expected an object, got {_describe_value(value)}"
            return
        yield from self._check_object(self.objects[name], value, path, name.rpartition(".")[2])

    def _check_enum(self, values: list[str], value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield path, f"expected a string, got {_describe_value(value)}"
        elif value not in values and (not self.converts_text or value):
            close = difflib.get_close_matches(value, values, 3, 0.4)
            choices = close or values[:8]
            suffix = " …" if len(values) > len(choices) else ""
            yield path, f"{value!r} is not a valid value; the API takes {', '.join(choices)}{suffix}"

    def _is_primitive(self, text: str, value: Any) -> bool:
        if text == "string":
            return isinstance(value, str) or (self.converts_text and isinstance(value, (bool, int, float)))
        if text == "boolean":
            return isinstance(value, bool) or (self.converts_text and value in _BOOLEANS)
        if isinstance(value, str) and self.converts_text:
            return bool(_NUMBER.fullmatch(value)) and (text == "number" or "." not in value)
        if isinstance(value, bool):
            return False
        if isinstance(value, float):
            return text == "number" or value.is_integer()
        return isinstance(value, int)


def _describe_unknown(key: str, owner: str, properties: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(key, properties, 1)
    return f"{owner} has no property {key!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _describe_value(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)

"""The part of YAML on which all readers agree, decoded in one pass; anything else is left to a slower reader.

A folder of 500 rack files is read at every start of Ansible, and the reader that keeps line numbers takes 20 ms a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import yaml

from gpufleet.boundary.limit import OPERATOR_FILE, DocumentLimits

YAML_READER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in: 15 times faster
_WORDS: dict[str, Any] = {"": None, "null": None, "~": None, "true": True, "false": False}
# What some reader takes for a boolean, a null or a number that is none.
_DOUBTFUL = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TEXT = re.compile(
    r"[A-Za-z][^\n]*"  # begins as no number, date, tag or merge key does
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?"  # an IPv4 address or network
    # Serials and MAC addresses: with one of these letters in it, it is a number in no base that YAML knows.
    r"|(?=[0-9a-f]*[acdf])[0-9a-f]{4,64}"
    r"|(?=[0-9:]*[a-f])[0-9a-f]{2}(?::[0-9a-f]{2}){5}"
)
_DEEPEST = 20


class _UnusualError(Exception):
    """The document has something on which readers may differ."""


def decode_yaml_subset(text: str, limits: DocumentLimits = OPERATOR_FILE) -> Any:
    """Return the document's value, or None where ``decode_yaml`` or another complete reader must decide.

    Read are mappings with unique text keys, lists, quoted and evident plain text, decimal numbers, days, true, false
    and null. Anchors, aliases, tags, directives, merge keys, several documents and whatever is not valid are not.
    """
    if len(text) > limits.bytes or "\x00" in text:
        return None
    try:
        return _document(yaml.parse(text, Loader=YAML_READER), limits)
    except (_UnusualError, yaml.YAMLError, ValueError, RecursionError):
        return None


def _document(events: Iterator[Any], limits: DocumentLimits) -> Any:
    kinds = [type(next(events)), type(start := next(events))]
    if kinds != [yaml.StreamStartEvent, yaml.DocumentStartEvent] or start.version or start.tags:
        raise _UnusualError
    count = _Count(limits)
    value = _value(next(events), events, count, 0)
    if type(next(events)) is not yaml.DocumentEndEvent or type(next(events)) is not yaml.StreamEndEvent:
        raise _UnusualError
    return value


class _Count:
    """Counts values; more than the limit are for the reader that says so."""

    def __init__(self, limits: DocumentLimits) -> None:
        self.left = limits.values
        self.characters = limits.characters

    def count_value(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _UnusualError


def _value(event: Any, events: Iterator[Any], count: _Count, depth: int) -> Any:
    kind = type(event)
    if kind is yaml.AliasEvent or event.anchor is not None or event.tag is not None or depth > _DEEPEST:
        raise _UnusualError
    count.count_value()
    if kind is yaml.ScalarEvent:
        return _scalar(event, count)
    if kind is yaml.MappingStartEvent:
        return _mapping(events, count, depth)
    items = []
    while type(event := next(events)) is not yaml.SequenceEndEvent:
        items.append(_value(event, events, count, depth + 1))
    return items


def _mapping(events: Iterator[Any], count: _Count, depth: int) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    while type(event := next(events)) is not yaml.MappingEndEvent:
        key = _value(event, events, count, depth + 1)
        if type(key) is not str or key in mapping:
            raise _UnusualError
        mapping[key] = _value(next(events), events, count, depth + 1)
    return mapping


def _scalar(event: yaml.ScalarEvent, count: _Count) -> Any:
    text: str = event.value
    if len(text) > count.characters or not (text.isascii() or _is_unicode(text)) or "\x00" in text:
        raise _UnusualError
    if not event.implicit[0]:  # quoted, or a block of text
        return text
    if _TEXT.fullmatch(text) and text.lower() not in _DOUBTFUL:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text) and text != "-0":
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _DAY.fullmatch(text):
        return date.fromisoformat(text)
    raise _UnusualError


def _is_unicode(text: str) -> bool:
    """Return False for a lone surrogate, which an escape in quotes can bring."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

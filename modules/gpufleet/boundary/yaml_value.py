"""YAML from outside: libyaml's events, measured with aliases written out, build YAML 1.2 values.

One reader does both, so that no text can look small to the measure and large to what builds values from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.tag import Tag

from gpufleet.boundary.limit import KIB, OPERATOR_FILE, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, make_printable
from gpufleet.boundary.value_check import check_scalar_limits, is_storable_text
from gpufleet.boundary.yaml_subset import YAML_READER
from gpufleet.errors import InputError

_CORE = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({"!", f"{_CORE}str"})  # other tags make sets, bytes or programs' own types
_WRITTEN_BACK = DocumentLimits(bytes=128 * KIB, values=10_000)
_BROKEN = (YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def decode_yaml(text: str, where: str, limits: DocumentLimits = OPERATOR_FILE) -> Any:
    """Return the one YAML 1.2 document in ``text`` as plain values; None where it is empty."""
    return _decode(text, where, limits, YAML(typ="safe", pure=True))


def decode_yaml_with_line_numbers(text: str, where: str, limits: DocumentLimits = OPERATOR_FILE) -> Any:
    """Return the document as ruamel's ``CommentedMap`` and ``CommentedSeq``, which know the line of each key.

    Numbers keep how they were written (``ScalarInt``); comments are left out.
    """
    return _decode(text, where, limits, YAML(typ="rt"))


def format_key_location(data: Any, key: Any, path: Path) -> str:
    """Return ``path:line`` of a key of a mapping that knows its lines, else the path."""
    lines = getattr(data, "lc", None)
    return f"{path}:{lines.key(key)[0] + 1}" if lines and key in data else str(path)


def decode_yaml_with_comments(text: str, where: str) -> Any:
    """Return the document as ruamel's own reader has it, with comments: only for a file that is written back.

    ``decode_yaml`` checks it first. ruamel's scanner reads 100 KiB a second, so the text is shorter than others.
    """
    decode_yaml(text, where, _WRITTEN_BACK)
    loader = YAML(typ="rt")
    loader.max_depth = 2 * _WRITTEN_BACK.depth
    with _one_line(where):
        return loader.load(text)


def _decode(text: str, where: str, limits: DocumentLimits, loader: YAML) -> Any:
    with _one_line(where):
        node = _Composer(where, limits, loader).compose_document(_read_events(text, where, limits))
        return None if node is None else loader.constructor.construct_document(node)


class _one_line:  # noqa: N801 - a context manager, used like a function
    """Turns what a YAML reader raises into an InputError with its line."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InputError) or not isinstance(error, (*_BROKEN, yaml.YAMLError)):
            return
        _refuse(error, self.where)


def _refuse(error: Exception, where: str) -> NoReturn:
    if isinstance(error, MarkedYAMLError | yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = where if mark is None else f"{where}:{mark.line + 1}"
        detail = make_printable(" ".join(str(error.problem or "not YAML")[:1000].split()))
        raise InputError(f"is not valid YAML: {detail}", where=place, remedy="correct that line") from None
    detail = make_printable(next(iter(str(error).strip().splitlines()), "") or type(error).__name__)
    raise InputError(f"is not valid YAML: {detail}", where=where, remedy="correct the file") from None


def _read_events(text: str, where: str, limits: DocumentLimits) -> Iterator[yaml.Event]:
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    measure = _Measure(where, limits)
    for event in yaml.parse(text, Loader=YAML_READER):
        measure.count_event(event)
        yield event


@dataclass
class _Measure:
    """Counts values and characters as events come; an anchor's counts are kept for the aliases that repeat them."""

    where: str
    limits: DocumentLimits
    values: int = 0
    characters: int = 0
    started: list[tuple[str | None, int, int]] = field(default_factory=list)
    anchors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def count_event(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            if event.anchor is not None:
                self.anchors[event.anchor] = (1, len(event.value))
            if len(event.value) > self.limits.characters:
                raise InputError("contains a text that is too long", where=self._place(event))
            self._count(1, len(event.value), event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.started.append((event.anchor, self.values, self.characters))
            if len(self.started) > self.limits.depth:
                raise InputError(
                    f"is nested deeper than {self.limits.depth} levels", where=self._place(event)
                )
            self._count(1, 0, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, characters = self.started.pop()
            if anchor is not None:
                self.anchors[anchor] = (self.values - values, self.characters - characters)
        elif isinstance(event, yaml.AliasEvent):
            # An alias inside its own anchor would repeat itself for ever.
            if any(anchor == event.anchor for anchor, *_ in self.started):
                raise InputError("an anchor contains itself", where=self._place(event))
            self._count(*self.anchors.get(event.anchor or "", (1, 0)), event)
        elif isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 2)):
            raise InputError("is YAML 1.1", where=self._place(event), remedy="remove the %YAML line")

    def _count(self, values: int, characters: int, event: yaml.Event) -> None:
        self.values += values
        self.characters += characters
        if self.values > self.limits.values:
            raise InputError(f"contains more than {self.limits.values:,} values", where=self._place(event))
        if self.characters > self.limits.bytes:
            raise InputError(f"contains more than {self.limits.bytes:,} characters", where=self._place(event))

    def _place(self, event: yaml.Event) -> str:
        return f"{self.where}:{event.start_mark.line + 1}" if event.start_mark else self.where


class _Composer:
    """Builds ruamel's nodes from libyaml's events: the tree that ruamel's own constructors make values of."""

    def __init__(self, where: str, limits: DocumentLimits, loader: YAML) -> None:
        self.where = where
        self.limits = limits
        self.loader = loader
        self.resolved: dict[str, Tag] = {}
        self.anchors: dict[str, Node] = {}
        self.open: list[tuple[Any, list[Node]]] = []
        self.documents: list[Node] = []

    def compose_document(self, events: Iterator[yaml.Event]) -> Node | None:
        """Return the one document's root; None for an empty text."""
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._start(ScalarNode(self._resolve(event), event.value, style=event.style), event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif isinstance(event, yaml.AliasEvent):
                self._add(self._anchored(event), event)
            elif isinstance(event, yaml.DocumentStartEvent) and self.documents:
                raise InputError(
                    "contains more than one YAML document", where=self._place(event), remedy="keep one"
                )
        return self.documents[0] if self.documents else None

    def _place(self, event: yaml.Event) -> str:
        return f"{self.where}:{event.start_mark.line + 1}" if event.start_mark else self.where

    def _open(self, event: Any) -> None:
        kind, tag = _COLLECTIONS[type(event)]
        if event.tag is not None:
            raise self._tagged(event)
        node = kind(tag, [], flow_style=event.flow_style)
        self._start(node, event)
        self.open.append((node, []))

    def _close(self) -> None:
        node, parts = self.open.pop()
        pairs = isinstance(node, MappingNode)
        node.value = list(zip(parts[::2], parts[1::2], strict=True)) if pairs else parts

    def _start(self, node: Node, event: Any) -> None:
        node.start_mark, node.end_mark, node.anchor = event.start_mark, event.end_mark, event.anchor
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self._add(node, event)

    def _add(self, node: Node, event: yaml.Event) -> None:
        parent, parts = self.open[-1] if self.open else (None, self.documents)
        if isinstance(parent, MappingNode) and len(parts) % 2 == 0 and not isinstance(node, ScalarNode):
            raise InputError(
                "has a key that is not a string", where=self._place(event), remedy="correct that line"
            )
        parts.append(node)

    def _anchored(self, event: yaml.AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise InputError(f"has no anchor &{make_printable(event.anchor, 60)}", where=self._place(event))
        return self.anchors[event.anchor]

    def _tagged(self, event: Any) -> InputError:
        printable_tag = make_printable(event.tag.replace(_CORE, "!!"), 60)
        return InputError(f"has the tag {printable_tag}", where=self._place(event), remedy="remove the tag")

    def _resolve(self, event: yaml.ScalarEvent) -> Tag:
        """Return the tag that YAML 1.2 gives a value by how it is written; refuse a value that is none."""
        value: str = event.value
        if not is_storable_text(value):
            check_scalar_limits(value, self._place(event), self.limits)
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise self._tagged(event)
        if not event.implicit[0] or value[:1] not in _NOT_TEXT:
            return _TEXT
        if value not in self.resolved:
            tag = self.loader.resolver.resolve(ScalarNode, value, event.implicit)
            self._check_value(ScalarNode(tag, value), event)
            self.resolved[value] = tag
        return self.resolved[value]

    def _check_value(self, node: ScalarNode, event: yaml.ScalarEvent) -> None:
        if node.tag == f"{_CORE}merge":
            return
        try:
            value = self.loader.constructor.construct_non_recursive_object(node)
        except _BROKEN as error:
            digits = (
                "more digits than a number has"
                if len(node.value) > _LONGEST_NUMBER
                else make_printable(error)
            )
            raise InputError(
                f"{make_printable(node.value, 40)!r} is not a value: {digits}",
                where=self._place(event), remedy="correct that line",
            ) from None  # fmt: skip
        check_scalar_limits(value, self._place(event), self.limits)


_LONGEST_NUMBER = 100
_TEXT = Tag(suffix=f"{_CORE}str")
_NOT_TEXT = frozenset(["", *"0123456789+-.~nNtTfF<"])  # first characters of what may be no text
_COLLECTIONS: dict[type[yaml.Event], tuple[Any, Tag]] = {
    yaml.SequenceStartEvent: (SequenceNode, Tag(suffix=f"{_CORE}seq")),
    yaml.MappingStartEvent: (MappingNode, Tag(suffix=f"{_CORE}map")),
}

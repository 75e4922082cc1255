"""YAML from outside: measured with its aliases written out before anything is built from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from gpufleet.boundary.limit import OPERATOR_FILE, Limits
from gpufleet.boundary.text import printable, too_large
from gpufleet.errors import InputError

YAML_READER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in: 15 times faster


def decode_yaml(text: str, where: str, limits: Limits = OPERATOR_FILE) -> Any:
    """Return the one YAML 1.2 document in ``text`` as plain values; None where it is empty."""
    check_yaml_size(text, where, limits)
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = where if mark is None else f"{where}:{mark.line + 1}"
        detail = printable(" ".join((error.problem or "not YAML").split()))
        raise InputError(f"is not valid YAML: {detail}", where=place, remedy="correct that line") from None
    except (YAMLError, ValueError, OverflowError, RecursionError) as error:
        detail = printable(str(error).strip().split("\n")[-1])
        raise InputError(f"is not valid YAML: {detail}", where=where, remedy="correct the file") from None
    return value


def check_yaml_size(text: str, where: str, limits: Limits = OPERATOR_FILE) -> None:
    """Raise InputError where a document is too large, too deep, or too large once its aliases are written out.

    The document is read as a stream of events, so nothing is built. A few hundred bytes of anchors on anchors stand
    for billions of values; every reader that walks the result would walk them all.
    """
    if len(text) > limits.bytes:
        raise too_large(len(text), where, limits)
    measure = _Measure(where, limits)
    try:
        for event in yaml.parse(text, Loader=YAML_READER):
            measure.add(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = where if mark is None else f"{where}:{mark.line + 1}"
        detail = printable(" ".join((error.problem or "not YAML").split()))
        raise InputError(f"is not valid YAML: {detail}", where=place, remedy="correct that line") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = printable(str(error).strip().split("\n")[0])
        raise InputError(f"is not valid YAML: {detail}", where=where, remedy="correct the file") from None


@dataclass
class _Measure:
    """Counts values as events come; a collection's count is kept under its anchor for the aliases that repeat it."""

    where: str
    limits: Limits
    total: int = 0
    started: list[tuple[str | None, int]] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)

    def add(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionStartEvent):
            self.started.append((event.anchor, self.total))
            if len(self.started) > self.limits.depth:
                raise InputError(
                    f"is nested deeper than {self.limits.depth} levels", where=self._place(event)
                )
            self._count(1, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self.started.pop()
            if anchor is not None:
                self.anchors[anchor] = self.total - before
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor is not None:
                self.anchors[event.anchor] = 1
            if len(event.value) > self.limits.characters:
                raise InputError("holds a text that is too long", where=self._place(event))
            self._count(1, event)
        elif isinstance(event, yaml.AliasEvent):
            # An alias inside its own anchor would repeat itself for ever.
            if any(anchor == event.anchor for anchor, _ in self.started):
                raise InputError("an anchor contains itself", where=self._place(event))
            self._count(self.anchors.get(event.anchor or "", 1), event)

    def _count(self, values: int, event: yaml.Event) -> None:
        self.total += values
        if self.total > self.limits.values:
            raise InputError(f"holds more than {self.limits.values:,} values", where=self._place(event))

    def _place(self, event: yaml.Event) -> str:
        return f"{self.where}:{event.start_mark.line + 1}" if event.start_mark else self.where

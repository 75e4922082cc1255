"""Decode what Prometheus exporters answer: the text format 0.0.4, of the metrics that somebody asks for.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. One pass over the lines; a line of another metric
is not looked at. Timestamps are ignored: a sample counts when it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import NamedTuple

from gpufleet.boundary.text import shorten_repr
from gpufleet.errors import InputError

MAX_SAMPLES = 20_000  # of the requested metrics; a server with 8 GPUs and 24 drives has a few hundred
MAX_LABELS = 64
MAX_LABEL_LENGTH = 512
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|$)')
VALUE = re.compile(r"[ \t]*([+-]?(?:\d[\d.eE+-]*|\.\d[\deE+-]*|[Ii]nf|[Nn]a[Nn]))(?:[ \t]+-?\d+)?[ \t]*")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Sample(NamedTuple):
    """One sample of a metric: labels sorted by name, and a number that is not NaN."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def decode_exposition(text: str, where: str, names: Container[str]) -> list[Sample]:
    """Return the samples of the metrics ``names``; InputError, with the line, for one that is malformed.

    A sample that comes twice counts once, with its last value. NaN is the exporter's "not known": left out.
    """
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = NAME.match(line)
        if match is None or match[0] not in names:
            continue
        try:
            labels, value = _decode_rest(line, match.end())
        except ValueError as error:
            raise InputError(f"{error}: {shorten_repr(line)}", where=f"{where}:{number}") from None
        if not math.isnan(value):
            samples[match[0], labels] = value
        if len(samples) > MAX_SAMPLES:
            raise InputError(f"has more than {MAX_SAMPLES:,} samples", where=where)
    return [Sample(name, labels, value) for (name, labels), value in samples.items()]


def _decode_rest(line: str, position: int) -> tuple[tuple[tuple[str, str], ...], float]:
    """Return labels and value of a line behind the metric's name."""
    labels: dict[str, str] = {}
    if line[position : position + 1] == "{":
        end = line.rfind("}")
        if end < 0:
            raise ValueError("the labels have no end")
        labels = _decode_labels(line[position + 1 : end])
        position = end + 1
    match = VALUE.fullmatch(line.rstrip("\r"), position)
    if match is None:
        raise ValueError("the value is not a number")
    return tuple(sorted(labels.items())), float(match[1])


def _decode_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        match = LABEL.match(text, position)
        if match is None:
            raise ValueError("the labels are malformed")
        if len(labels) == MAX_LABELS or len(match[2]) > MAX_LABEL_LENGTH:
            raise ValueError("a sample has too many or too long labels")
        if match[1] in labels:
            raise ValueError("a label comes twice")
        labels[match[1]] = re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), match[2])
        position = match.end()
    return labels

"""The header of a GGUF file (versions 2 and 3): keys and tensors, read within bounds; no weight is read.

The ``gguf`` package's reader makes an object for every element of an array before it looks at how long the file is: a
header of 2.8 KB took 30 s and 1.8 GB. Here every declared count is held against the bytes that are left.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LEAST_KEY, LEAST_TENSOR = 13, 24  # bytes that the shortest key and the shortest tensor take
MOST_ELEMENTS = 4_000_000  # of all arrays; the largest vocabularies have some 260,000 words in three arrays
MOST_ENTRIES = 200_000  # keys, and tensors: the largest models have some thousands
MOST_KEPT = 10_000  # of one array's numbers: layers have values of their own, words' scores are not needed
LONGEST_KEY, LONGEST_TEXT = 1 << 16, 1 << 24  # bytes; chat templates have some 10 KB
MOST_TEXT = 1 << 26  # bytes of all texts that are kept
MOST_DIMENSIONS = 8
TEXT, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BUFFER = 1 << 20


class DamagedError(ValueError):
    """The bytes are not a whole GGUF file."""


@dataclass(frozen=True)
class Array:
    """An array: how many elements, and the numbers themselves where they are few."""

    count: int
    numbers: tuple[int | float, ...] = ()


@dataclass(frozen=True)
class Tensor:
    """A tensor: ``shape`` as in the file, fastest dimension first; ``kind`` is ggml's name of its type."""

    name: str
    shape: tuple[int, ...]
    kind: str
    elements: int
    bytes: int


@dataclass(frozen=True)
class GgufFile:
    """The keys with their values and the tensors of one file."""

    fields: dict[str, Any]
    tensors: tuple[Tensor, ...]


def read_gguf(path: Path) -> GgufFile:
    """Return a file's header; raise DamagedError where it is not a whole GGUF file, OSError where it cannot be read."""
    if not path.is_file():
        raise DamagedError("not a regular file")
    with path.open("rb", buffering=BUFFER) as file:
        return _Reader(file, path.stat().st_size).read()


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.left = size
        self.size = size
        self.order = "<"
        self.elements = 0
        self.kept = 0

    def read(self) -> GgufFile:
        if self._take(4) != MAGIC:
            raise DamagedError("another beginning")
        version = self._take(4)
        if struct.unpack("<I", version)[0] & 0xFFFF == 0:  # as a machine of the other byte order wrote it
            self.order = ">"
        if struct.unpack(f"{self.order}I", version)[0] not in VERSIONS:
            raise DamagedError("another version")
        tensors, keys = self._number("Q"), self._number("Q")
        self._check_count(keys, LEAST_KEY)
        self._check_count(tensors, LEAST_TENSOR)
        fields: dict[str, Any] = {}
        for _ in range(keys):
            name = self._text(LONGEST_KEY)
            if name in fields:
                raise DamagedError("a key twice")
            fields[name] = self._value(self._number("I"))
        listed = [self._tensor() for _ in range(tensors)]
        self._check_data(fields, listed)
        return GgufFile(fields, tuple(tensor for tensor, _ in listed))

    def _check_count(self, count: int, least: int) -> None:
        if count * least > self.left or count > MOST_ENTRIES:
            raise DamagedError("more entries than bytes")

    def _check_data(self, fields: dict[str, Any], listed: list[tuple[Tensor, int]]) -> None:
        """Refuse a file that ends before the weights that it declares."""
        alignment = fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise DamagedError("another alignment")
        start = math.ceil((self.size - self.left) / alignment) * alignment
        if len({tensor.name for tensor, _ in listed}) != len(listed):
            raise DamagedError("a tensor twice")
        if any(start + offset + tensor.bytes > self.size for tensor, offset in listed):
            raise DamagedError("less weights than it says")

    def _take(self, count: int) -> bytes:
        if count > self.left:
            raise DamagedError("an end too early")
        content = self.file.read(count)
        if len(content) != count:
            raise DamagedError("an end too early")
        self.left -= count
        return content

    def _skip(self, count: int) -> None:
        if count > self.left:
            raise DamagedError("an end too early")
        self.file.seek(count, 1)
        self.left -= count

    def _number(self, kind: str) -> Any:
        return struct.unpack(f"{self.order}{kind}", self._take(struct.calcsize(f"={kind}")))[0]

    def _text(self, longest: int) -> str:
        length = self._number("Q")
        self.kept += length
        if length > longest or self.kept > MOST_TEXT:
            raise DamagedError("a text too long")
        return self._take(length).decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text(LONGEST_TEXT)
        if kind == ARRAY:
            return self._array()
        if kind not in SCALARS:
            raise DamagedError("another type")
        return self._number(SCALARS[kind])

    def _array(self) -> Array:
        kind, count = self._number("I"), self._number("Q")
        self.elements += count
        if self.elements > MOST_ELEMENTS:
            raise DamagedError("more elements than a model has")
        if kind == TEXT:
            for _ in range(count):
                self._skip(self._number("Q"))
            return Array(count)
        if kind not in SCALARS:  # arrays of arrays: none is known
            raise DamagedError("another type")
        size = struct.calcsize(f"={SCALARS[kind]}")
        if count > MOST_KEPT:
            self._skip(count * size)
            return Array(count)
        return Array(count, struct.unpack(f"{self.order}{count}{SCALARS[kind]}", self._take(count * size)))

    def _tensor(self) -> tuple[Tensor, int]:
        """Return a tensor and where its weights begin in the file's data."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        name, dimensions = self._text(LONGEST_KEY), self._number("I")
        if dimensions > MOST_DIMENSIONS:
            raise DamagedError("more dimensions than a tensor has")
        shape = tuple(self._number("Q") for _ in range(dimensions))
        kind = GGMLQuantizationType(self._number("I"))
        block, size = GGML_QUANT_SIZES[kind]
        elements = math.prod(shape)
        return Tensor(name, shape, kind.name.lower(), elements, elements * size // block), self._number("Q")

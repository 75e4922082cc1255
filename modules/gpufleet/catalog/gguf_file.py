"""The header of a GGUF file (versions 2 and 3): keys and tensors, read within bounds; no weight is read.

The ``gguf`` package's reader makes an object for every element of an array before it looks at how long the file is: a
header of 2.8 KB took 30 s and 1.8 GB. This reader checks every declared count against the remaining bytes.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpufleet.catalog.gguf_type import TENSOR_TYPES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MIN_KEY_BYTES, MIN_TENSOR_BYTES = 13, 24  # bytes that the shortest key and the shortest tensor take
MAX_ARRAY_ELEMENTS = (
    4_000_000  # of all arrays; the largest vocabularies have some 260,000 words in three arrays
)
MAX_ENTRIES = 200_000  # keys, and tensors: the largest models have some thousands
MAX_ARRAY_NUMBERS = (
    10_000  # of one array's numbers: layers have values of their own, words' scores are not needed
)
MAX_KEY_BYTES, MAX_TEXT_BYTES = 1 << 16, 1 << 24  # bytes; chat templates have some 10 KB
MAX_TOTAL_TEXT_BYTES = 1 << 26  # bytes of all texts that are kept
MAX_DIMENSIONS = 8
TEXT_TYPE, ARRAY_TYPE = 8, 9
SCALAR_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BUFFER_BYTES = 1 << 20


class InvalidGgufError(ValueError):
    """The bytes are not a complete GGUF file."""


class UnknownTensorTypeError(InvalidGgufError):
    """A tensor has a type that is not in TENSOR_TYPES: ``number`` is the file's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"unknown type {number} of tensor")
        self.number = number


@dataclass(frozen=True)
class GgufArray:
    """An array: the number of elements, and the numbers themselves if there are few."""

    count: int
    numbers: tuple[int | float, ...] = ()


@dataclass(frozen=True)
class GgufTensor:
    """A tensor: ``shape`` as in the file, fastest dimension first; ``kind`` is ggml's name of its type."""

    name: str
    shape: tuple[int, ...]
    kind: str
    elements: int
    bytes: int


@dataclass(frozen=True)
class GgufFileHeader:
    """The keys with their values and the tensors of one file."""

    fields: dict[str, Any]
    tensors: tuple[GgufTensor, ...]


def read_gguf_header(path: Path) -> GgufFileHeader:
    """Return a file's header; raise DamagedError where it is not a whole GGUF file, OSError where it cannot be read."""
    if not path.is_file():
        raise InvalidGgufError("not a regular file")
    with path.open("rb", buffering=BUFFER_BYTES) as file:
        return _Reader(file, path.stat().st_size).read_header()


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.left = size
        self.size = size
        self.order = "<"
        self.elements = 0
        self.kept = 0

    def read_header(self) -> GgufFileHeader:
        if self._read_bytes(4) != MAGIC:
            raise InvalidGgufError("no GGUF magic number")
        version = self._read_bytes(4)
        if struct.unpack("<I", version)[0] & 0xFFFF == 0:  # as a machine of the other byte order wrote it
            self.order = ">"
        if struct.unpack(f"{self.order}I", version)[0] not in VERSIONS:
            raise InvalidGgufError("unsupported version")
        tensors, keys = self._read_number("Q"), self._read_number("Q")
        self._check_count(keys, MIN_KEY_BYTES)
        self._check_count(tensors, MIN_TENSOR_BYTES)
        fields: dict[str, Any] = {}
        for _ in range(keys):
            name = self._read_text(MAX_KEY_BYTES)
            if name in fields:
                raise InvalidGgufError("a repeated key")
            fields[name] = self._read_value(self._read_number("I"))
        tensors_with_offsets = [self._read_tensor() for _ in range(tensors)]
        self._check_data(fields, tensors_with_offsets)
        return GgufFileHeader(fields, tuple(tensor for tensor, _ in tensors_with_offsets))

    def _check_count(self, count: int, min_bytes: int) -> None:
        if count * min_bytes > self.left or count > MAX_ENTRIES:
            raise InvalidGgufError("more entries than bytes")

    def _check_data(self, fields: dict[str, Any], tensors_with_offsets: list[tuple[GgufTensor, int]]) -> None:
        """Raise InvalidGgufError if the file ends before the weights that it declares."""
        alignment = fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise InvalidGgufError("invalid alignment")
        start = math.ceil((self.size - self.left) / alignment) * alignment
        if len({tensor.name for tensor, _ in tensors_with_offsets}) != len(tensors_with_offsets):
            raise InvalidGgufError("a repeated tensor")
        if any(start + offset + tensor.bytes > self.size for tensor, offset in tensors_with_offsets):
            raise InvalidGgufError("fewer weights than declared")

    def _read_bytes(self, count: int) -> bytes:
        if count > self.left:
            raise InvalidGgufError("the file ends too early")
        content = self.file.read(count)
        if len(content) != count:
            raise InvalidGgufError("the file ends too early")
        self.left -= count
        return content

    def _skip_bytes(self, count: int) -> None:
        if count > self.left:
            raise InvalidGgufError("the file ends too early")
        self.file.seek(count, 1)
        self.left -= count

    def _read_number(self, kind: str) -> Any:
        return struct.unpack(f"{self.order}{kind}", self._read_bytes(struct.calcsize(f"={kind}")))[0]

    def _read_text(self, max_bytes: int) -> str:
        length = self._read_number("Q")
        self.kept += length
        if length > max_bytes or self.kept > MAX_TOTAL_TEXT_BYTES:
            raise InvalidGgufError("a text that is too long")
        return self._read_bytes(length).decode("utf-8")

    def _read_value(self, kind: int) -> Any:
        if kind == TEXT_TYPE:
            return self._read_text(MAX_TEXT_BYTES)
        if kind == ARRAY_TYPE:
            return self._read_array()
        if kind not in SCALAR_FORMATS:
            raise InvalidGgufError("an unknown type")
        return self._read_number(SCALAR_FORMATS[kind])

    def _read_array(self) -> GgufArray:
        kind, count = self._read_number("I"), self._read_number("Q")
        self.elements += count
        if self.elements > MAX_ARRAY_ELEMENTS:
            raise InvalidGgufError("more elements than a model has")
        if kind == TEXT_TYPE:
            for _ in range(count):
                self._skip_bytes(self._read_number("Q"))
            return GgufArray(count)
        if kind not in SCALAR_FORMATS:  # arrays of arrays: none is known
            raise InvalidGgufError("an unknown type")
        size = struct.calcsize(f"={SCALAR_FORMATS[kind]}")
        if count > MAX_ARRAY_NUMBERS:
            self._skip_bytes(count * size)
            return GgufArray(count)
        return GgufArray(
            count, struct.unpack(f"{self.order}{count}{SCALAR_FORMATS[kind]}", self._read_bytes(count * size))
        )

    def _read_tensor(self) -> tuple[GgufTensor, int]:
        """Return a tensor and where its weights begin in the file's data."""
        name, dimensions = self._read_text(MAX_KEY_BYTES), self._read_number("I")
        if dimensions > MAX_DIMENSIONS:
            raise InvalidGgufError("more dimensions than a tensor has")
        shape = tuple(self._read_number("Q") for _ in range(dimensions))
        number = self._read_number("I")
        if number not in TENSOR_TYPES:
            raise UnknownTensorTypeError(number)
        kind, block, size = TENSOR_TYPES[number]
        elements = math.prod(shape)
        return GgufTensor(name, shape, kind, elements, elements * size // block), self._read_number("Q")

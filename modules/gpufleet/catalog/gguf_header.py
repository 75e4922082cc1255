"""The keys and tensors of one model, from all parts of its GGUF file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpufleet.boundary import shorten_repr
from gpufleet.catalog.gguf_file import (
    MAGIC,
    GgufArray,
    GgufFileHeader,
    UnknownTensorTypeError,
    read_gguf_header,
)
from gpufleet.errors import InputError

MAX_SETTING = 10**12  # of any setting: beyond it is damage
SPLIT_FILE_SUFFIX = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
READ_ERRORS = (ValueError, KeyError, OSError)  # an unknown tensor type, text that is not UTF-8


class GgufModelHeader:
    """The keys and tensors of one model, collected from all parts of a split file."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        files = [_read_file(part) for part in _find_parts(path)]
        self.fields = files[0].fields
        self.tensors = [tensor for file in files for tensor in file.tensors]
        self.kind = str(self.get_field("general.architecture") or "")
        if not self.kind or not self.tensors:
            raise InputError(
                "contains no model", where=self.where, remedy="a model file has an architecture and tensors"
            )

    def get_field(self, key: str) -> Any:
        """Return the value of a key as named in the file, None if it is missing."""
        return self.fields.get(key)

    def get_architecture_number(self, key: str, default: int | None = None) -> int:
        """Return a number of the model's architecture; of a list, its largest."""
        value = self.get_field(f"{self.kind}.{key}")
        if isinstance(value, GgufArray):
            value = max(value.numbers, default=None)
        if value is None:
            if default is not None:
                return default
            raise InputError("is missing", where=self.where, key=f"{self.kind}.{key}")
        if not isinstance(value, int | float) or not 0 <= value < MAX_SETTING:
            raise InputError(
                f"{shorten_repr(value)} is not a number from 0 to {MAX_SETTING - 1:,}",
                where=self.where,
                key=f"{self.kind}.{key}",
            )
        return int(value)

    def count_tensor_rows(self, tensor_name: str) -> int:
        """Return the number of rows of a tensor, 0 if it does not exist."""
        return next((t.shape[-1] if t.shape else 1 for t in self.tensors if t.name == tensor_name), 0)


def _read_file(path: Path) -> GgufFileHeader:
    try:
        return read_gguf_header(path)
    except UnknownTensorTypeError as error:
        raise InputError(
            f"has tensors of type {error.number}, which is not known",
            where=str(path),
            remedy="their bytes cannot be counted; is the file newer than this gpufleet?",
        ) from error
    except READ_ERRORS as error:
        raise InputError(
            f"is not a complete GGUF file: {_describe_failure(path)}",
            where=str(path),
            remedy="download it again",
        ) from error


def _describe_failure(path: Path) -> str:
    """Return why a file cannot be read."""
    try:
        with path.open("rb") as file:
            first_bytes = file.read(len(MAGIC))
    except OSError:
        return "it cannot be read"
    if not first_bytes:
        return "it is empty"
    return "it is truncated or damaged" if first_bytes == MAGIC else "it has no GGUF magic number"


def _find_parts(path: Path) -> list[Path]:
    match = SPLIT_FILE_SUFFIX.search(path.name)
    if not match:
        return [path]
    stem, count = path.name[: match.start()], int(match.group(2))
    parts = [path.with_name(f"{stem}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise InputError(
            f"part {missing[0]} is missing", where=str(path), remedy="keep all parts in one folder"
        )
    return parts

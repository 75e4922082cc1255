"""How quantised matrices are stored, and the keys of a config.json's ``quantization_config`` that state it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpufleet.boundary import shorten_repr
from gpufleet.errors import InputError

KEY = "quantization_config"
HALF_BITS, BYTE_BITS = 16, 8
MAX_BITS, MAX_GROUP = 16, 1 << 20


@dataclass(frozen=True)
class MatrixFormat:
    """How one quantised matrix is stored. ``matrix_bits`` are per matrix: its codebooks."""

    precision: str  # the name for --precision
    bits: float  # per weight
    matrix_bits: float = 0.0


@dataclass(frozen=True)
class FormatRule:
    """Modules with a format of their own. None: they stay in 16 bits. ``has_globs``: "*" in names is a wildcard."""

    patterns: tuple[str, ...]
    format: MatrixFormat | None
    has_globs: bool = False


@dataclass(frozen=True)
class ModelQuantization:
    """What a method quantises. The first rule that matches a module counts, then the default."""

    default: MatrixFormat | None
    rules: tuple[FormatRule, ...] = ()
    has_quantized_embedding: bool = False
    has_quantized_output: bool = False
    only_experts: bool = False  # all other matrices stay in 16 bits
    total_bits: float = 0.0  # of all quantised matrices, if the file states it


@dataclass(frozen=True)
class QuantizationKeys:
    """The keys of one level of a ``quantization_config``, with its place for messages."""

    where: str
    values: dict[str, Any]
    key: str = KEY

    def get_number(self, *names: str, default: float | None = None, largest: float = MAX_BITS) -> float:
        """Return a positive number; raise InputError for another value, or without value and default."""
        name = next((name for name in names if self.values.get(name) is not None), names[0])
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= largest:
            raise self.build_error(name, f"{shorten_repr(value)} is not a number above 0 up to {largest:g}")
        return float(value)

    def get_group(self, *names: str, default: int = 128) -> float:
        """Return a group's weights; infinity for -1, 0 and null of a stated key: one scale per row."""
        name = next((name for name in names if name in self.values), "")
        if not name:
            return float(default)
        if self.values[name] in (-1, 0, None):
            return math.inf
        return self.get_number(name, largest=MAX_GROUP)

    def get_text(self, *names: str, default: str = "") -> str:
        """Return the first of these keys that has a value, in lower case."""
        value = next((self.values[name] for name in names if self.values.get(name) is not None), default)
        if not isinstance(value, str):
            raise self.build_error(names[0], f"{shorten_repr(value)} is not a text")
        return value.lower()

    def get_names(self, *names: str) -> tuple[str, ...]:
        """Return the lists of module names in these keys."""
        found: list[str] = []
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, str):
                value = [value]
            if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
                raise self.build_error(name, f"{shorten_repr(value)} is not a list of names")
            found += value
        return tuple(found)

    def get_level(self, name: str) -> QuantizationKeys:
        """Return the keys of a nested object, empty if it is missing."""
        value = self.values.get(name)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.build_error(name, f"{shorten_repr(value)} is not an object")
        return QuantizationKeys(self.where, value, f"{self.key}.{name}")

    def list_levels(self, name: str) -> list[tuple[str, QuantizationKeys]]:
        """Return the objects in a nested object by their names."""
        level = self.get_level(name)
        return [(entry, level.get_level(entry)) for entry in level.values]

    def build_error(self, name: str, problem: str) -> InputError:
        """Return the error of a key."""
        return InputError(problem, where=self.where, key=f"{self.key}.{name}")


def build_integer_format(bits: float, group: float, scale_bits: float) -> MatrixFormat:
    """Return integers in groups; ``scale_bits`` per group. A scale of a row is less than a thousandth."""
    whole = max(1, min(8, math.ceil(bits)))
    grouped = math.isfinite(group)
    name = f"int{whole}-g{group:.0f}" if grouped and whole <= BYTE_BITS else f"int{whole}"
    return MatrixFormat(name, bits + (scale_bits / group if grouped else 0.0))


FP8 = MatrixFormat("fp8", 8.0)
MXFP8 = MatrixFormat("mxfp8", 8 + 8 / 32)
NVFP4 = MatrixFormat("nvfp4", 4 + 8 / 16)
MXFP4 = MatrixFormat("mxfp4", 4 + 8 / 32)

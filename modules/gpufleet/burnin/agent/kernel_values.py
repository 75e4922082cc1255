"""What the kernels and the host both know: a thread's share, the hash of a place, and where the orbits end.

Every value is a function of its place, so that a check never reads what it checks against from the memory under test.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

THREADS = 256
VECTORS_PER_THREAD = 4
# A block's share of a linear pass: 256 threads x 4 vectors x 16 bytes.
BLOCK_BYTES = THREADS * VECTORS_PER_THREAD * 16
CHAINS = 8
# Multiplied with a vector's hash for its second to fourth word; odd, so that no information is lost.
WORD_FACTORS = (1, 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)
WEIGHT_SEED = 0x5BD1E995
MASK = 0xFFFFFFFF


def mix(value: int) -> int:
    """Return a 32-bit hash (Wellons' lowbias32), as the kernels compute it."""
    value &= MASK
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & MASK
    value = ((value ^ (value >> 15)) * 0x846CA68B) & MASK
    return value ^ (value >> 16)


def round_to_f32(value: Fraction) -> Fraction:
    """Return a fraction rounded to single precision, to nearest, ties to even."""
    number = float(value)
    (single,) = struct.unpack("<f", struct.pack("<f", number))
    # Rounding twice is wrong only where the first rounding made a tie: then the rest decides.
    if (
        Fraction(number) != value
        and abs(Fraction(number) - Fraction(single)) * (1 << 24) >= abs(Fraction(single)) / 2
    ):
        toward = math.inf if value > Fraction(number) else -math.inf
        (single,) = struct.unpack("<f", struct.pack("<f", math.nextafter(number, toward)))
    return Fraction(single)


def compute_orbits(kind: str, steps: int) -> tuple[bytes, bytes]:
    """Return the orbits' starts with the constant, and their ends, as the kernels read them."""
    letter = "f" if kind == "f32" else "d"

    def round_number(value: Fraction) -> Fraction:
        return round_to_f32(value) if kind == "f32" else Fraction(float(value))

    starts = [Fraction(chain + 1, 16) for chain in range(CHAINS)]
    constant = round_number(Fraction(-19, 10))
    ends = []
    for start in starts:
        x = start
        for _ in range(steps):
            x = round_number(x * x + constant)
        ends.append(x)
    return (
        struct.pack(f"<{CHAINS + 1}{letter}", *map(float, [*starts, constant])),
        struct.pack(f"<{CHAINS}{letter}", *map(float, ends)),
    )

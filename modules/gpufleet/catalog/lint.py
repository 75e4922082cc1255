"""Mistakes that catalogues of accelerators make, found in rows. Pure: rows in, findings out, nothing is mended.

A rate with sparsity in a dense column, a vector rate in a matrix column, MiB for GiB, one die for the package,
a bandwidth that the memory cannot have, a link that the architecture lacks, a name that means several parts,
a figure without a source. What is usual for an architecture is in ``architectures.csv``; figures that are known
to be wrong and that no rule can tell are in ``mistakes.csv``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.naming import plain
from gpufleet.catalog.sources import KINDS, LABELS, UNITS, line_of
from gpufleet.catalog.table import Row

SLACK = 1.35  # a product's clocks and cuts move a ratio so far; sparsity moves it by 2 or 4
VECTOR = 0.45  # below this part of the usual matrix rate it is another unit's rate
ON_CHIP = 20_000  # GB/s that only SRAM has: what follows from DRAM does not hold for it
PER_GIB = (0.3, 100)  # GB/s for each GiB: LPDDR of the largest size, GDDR of the smallest
PER_BYTE = (2, 1300)  # FLOP for each byte of memory traffic: a Pi's processor has 4, Inferentia1 1190
PER_WATT = 3.0  # dense 16-bit TFLOPS for each watt: MI350X has 2.3, the most here
WATTS = (2, 1600)  # of one device that is no wafer
BIGGEST = 1024  # GiB: a device with more is a figure in MiB
SMALLEST_SHARE = 0.5  # of a memory that software can use
KINDS_WITH_RATIOS = ("gpu_datacenter", "gpu_workstation", "gpu_gaming", "apple", "apu", "tpu")
RECALLED = re.compile(r"\[R\b|recall|from memory|unverified|to be verified", re.IGNORECASE)
LADDER = (  # rate, what it is measured against, the architecture's usual ratio
    ("fp8_tflops_dense", "sixteen", "fp8_per_16"),
    ("fp4_tflops_dense", "fp8_tflops_dense", "fp4_per_fp8"),
    ("int8_tops_dense", "sixteen", "int8_per_16"),
)


@dataclass(frozen=True)
class Finding:
    """One mistake: which rule, in which row and field, in words."""

    rule: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.field}: {self.message} [{self.rule}]"


def lint_parts(parts: Sequence[Row], usual: Sequence[Row], mistakes: Sequence[Row]) -> list[Finding]:
    """Return what is wrong with rows of ``accelerators.csv``; the other two are the files of those names."""
    found: list[Finding] = []
    for row in parts:
        found += [*_known(row, mistakes), *_recalled(row), *_memory(row), *_bandwidth(row), *_power(row)]
        found += _architecture(row, usual)
    return found + list(_names(parts))


def lint_sources(parts: Sequence[Row], given: Sequence[Row], sources: Sequence[Row]) -> list[Finding]:
    """Return fields without a source, and sources that are nowhere or of no field."""
    known = {row["id"] for row in sources}
    have = {
        (row["name"], field) for row in given for field in row["fields"].split() if row["source"] in known
    }
    filled = {(row["name"], field) for row in parts for field in row if field not in LABELS and row[field]}
    lacking = [Finding("source", *each, "no source") for each in sorted(filled - have)]
    idle = [Finding("source", *each, "sourced and empty") for each in sorted(have - filled)]
    lost = [
        Finding("source", row["name"], row["fields"], f"{row['source']!r} is not in sources.csv")
        for row in given
        if row["source"] not in known
    ]
    return [*lacking, *idle, *lost, *(each for row in sources for each in _source(row))]


def lint_hosts(hosts: Iterable[Row], parts: Sequence[Row], sources: Sequence[Row]) -> list[Finding]:
    """Return hosts whose card, board, memory or source is not what the other files know."""
    memory = {row["name"]: _sizes(row) for row in parts}
    known = {row["id"] for row in sources}
    found = []
    for row in hosts:
        card = row["accelerator"] or row["board"]
        size = row["accelerator_memory_gib"] or row["memory_gib"]
        if card not in memory:
            found.append(Finding("host", row["name"], "accelerator", f"{card!r} is not in accelerators.csv"))
        elif float(size) not in memory[card]:
            found.append(Finding("host", row["name"], "memory_gib", f"{card} is not sold with {size} GiB"))
        if not row["source"] or not set(row["source"].split()) <= known:
            found.append(Finding("source", row["name"], "source", f"{row['source']!r} is not in sources.csv"))
    return found


def _source(row: Row) -> Iterator[Finding]:
    if row["kind"] not in KINDS:
        yield Finding("source", row["id"], "kind", f"{row['kind']!r} is none of {', '.join(KINDS)}")
    if not row["address"] or not row["title"] or not row["as_of"]:
        yield Finding("source", row["id"], "address", "needs a title, an address and a date")
    yield from _recalled({"name": row["id"], "title": row["title"], "address": row["address"]})


def _known(row: Row, mistakes: Iterable[Row]) -> Iterator[Finding]:
    """Compare with figures that circulate for this very part and are wrong."""
    for each in mistakes:
        value = _number(row.get(each["field"], ""))
        if row["name"] == each["name"] and value is not None and _near(value, float(each["value"])):
            yield Finding(each["rule"], row["name"], each["field"], f"{value:g}: {each['what']}")


def _recalled(row: Row) -> Iterator[Finding]:
    for field, text in row.items():
        if RECALLED.search(text):
            yield Finding("recalled", row["name"], field, "somebody's memory is no source")


def _memory(row: Row) -> Iterator[Finding]:
    memory, usable = _number(row["memory_gib"]), _number(row["usable_gib"])
    if memory is None:
        yield Finding("missing", row["name"], "memory_gib", "a part without a memory cannot be planned with")
        return
    if memory > BIGGEST:
        yield Finding("unit", row["name"], "memory_gib", f"{memory:g} looks like MiB or MB")
    elif memory != int(memory) and (_number(row["bandwidth_gb_s"]) or 0) < ON_CHIP:
        yield Finding(
            "unit", row["name"], "memory_gib", f"{memory:g} is no size that is sold: GB, or usable?"
        )
    if memory not in _sizes(row):
        yield Finding("unit", row["name"], "memory_options", f"{memory:g} is none of them")
    if usable is not None and not memory * SMALLEST_SHARE <= usable <= memory:
        yield Finding(
            "unit", row["name"], "usable_gib", f"{usable:g} of {memory:g}: MiB, GB, or another part's?"
        )


def _bandwidth(row: Row) -> Iterator[Finding]:
    memory, bandwidth = _number(row["memory_gib"]), _number(row["bandwidth_gb_s"])
    if memory is None or bandwidth is None or bandwidth >= ON_CHIP:
        return
    ratio, (low, high) = bandwidth / memory, PER_GIB
    if not low <= ratio <= high:
        message = f"{bandwidth:g} GB/s for {memory:g} GiB: TB/s, Gb/s, or MiB?"
        yield Finding("unit", row["name"], "bandwidth_gb_s", message)
    rate = max(_sixteen(row) or 0, _number(row["fp32_tflops"]) or 0)
    if rate and not PER_BYTE[0] <= rate * 1000 / bandwidth <= PER_BYTE[1]:
        message = f"{rate * 1000 / bandwidth:.0f} FLOP a byte: TB/s for GB/s, or the wrong rate"
        yield Finding("ratio", row["name"], "bandwidth_gb_s", message)


def _power(row: Row) -> Iterator[Finding]:
    watts, rate = _number(row["tdp_w"]), _sixteen(row)
    if watts is None:
        return
    wafer = (_number(row["bandwidth_gb_s"]) or 0) >= ON_CHIP
    if not wafer and not WATTS[0] <= watts <= WATTS[1]:
        yield Finding("watts", row["name"], "tdp_w", f"no device takes {watts:g} W: kW, or a whole rack?")
    elif rate is not None and rate / watts > PER_WATT:
        yield Finding("watts", row["name"], "tdp_w", f"{rate / watts:.1f} TFLOPS a watt is more than any has")


def _architecture(row: Row, usual: Iterable[Row]) -> Iterator[Finding]:
    line = line_of(row, usual)
    if line is None:
        if row["kind"] in KINDS_WITH_RATIOS:
            yield Finding(
                "missing", row["name"], "architecture", "no line in architectures.csv to check it by"
            )
        return
    for field, column in UNITS:
        if row[field] and line[column] == "none":
            yield Finding("precision", row["name"], field, f"{line['architecture']} has no such unit")
    yield from _sixteen_bit(row, line)
    yield from (each for rung in LADDER for each in _rung(row, line, *rung))
    top, bandwidth = float(line["bandwidth_to"]), _number(row["bandwidth_gb_s"]) or 0
    if bandwidth > top * 1.01:
        message = f"{bandwidth:g} GB/s: no {line['architecture']} part has more than {top:g}"
        yield Finding("ratio", row["name"], "bandwidth_gb_s", message)
    if row["link"] and not row["link"].startswith(tuple(line["links"].split("; ")) if line["links"] else ()):
        message = f"{line['architecture']} has {line['links'] or 'no link of its own'}"
        yield Finding("link", row["name"], "link", message)
    if (
        row["kind"] == "gpu_gaming"
        and row["vendor"] == "NVIDIA"
        and not row["link"]
        and row["peer_access"] == "yes"
    ):
        yield Finding("link", row["name"], "peer_access", "stock drivers refuse it to GeForce cards")


def _sixteen_bit(row: Row, line: Row) -> Iterator[Finding]:
    """Check fp16 and bf16 against fp32: twice too much is sparsity, as much as fp32 is the vector units."""
    usual, vector = _number(line["matrix_per_fp32"]), _number(row["fp32_tflops"])
    for field in ("fp16_tflops_dense", "bf16_tflops_dense"):
        rate = _number(row[field])
        if usual is None or vector is None or rate is None:
            continue
        ratio, message = rate / vector, f"{rate / vector:.1f} x fp32, usual is {usual:g} x"
        if ratio > usual * SLACK:
            yield Finding("sparse", row["name"], field, f"{message}: with sparsity?")
        elif usual > 1 and _is_vector(row, field, ratio, usual):
            yield Finding("vector", row["name"], field, f"{message}: the vector units' rate?")


def _is_vector(row: Row, field: str, ratio: float, usual: float) -> bool:
    lesser = field == "fp16_tflops_dense" and row["kind"] == "asic"  # Gaudi3's fp16 is a quarter of its bf16
    return not lesser and (ratio < usual * VECTOR or (_near(ratio, 1) and usual > SLACK))


def _rung(row: Row, line: Row, field: str, base: str, column: str) -> Iterator[Finding]:
    """Check a lower precision against the one above it on this architecture."""
    rate, usual = _number(row[field]), _number(line[column])
    below = _sixteen(row) if base == "sixteen" else _number(row[base])
    if rate is None or below is None or usual is None:
        return
    if rate / below > usual * SLACK:
        message = f"{rate / below:.1f} x the next precision, usual is {usual:g} x: with sparsity?"
        yield Finding("sparse", row["name"], field, message)
    elif rate / below < usual * VECTOR:
        message = f"{rate / below:.2f} x the next precision, usual is {usual:g} x: another unit's rate?"
        yield Finding("ratio", row["name"], field, message)


def _names(parts: Sequence[Row]) -> Iterator[Finding]:
    """Find names that mean several rows: twice the same, or words that stand inside another part's name."""
    words = [_words(row["name"]) for row in parts]
    called: dict[str, int] = {}
    for at, row in enumerate(parts):
        for name in (row["name"], *_aliases(row)):
            first = called.setdefault(plain(name), at)
            if first != at:
                yield Finding("ambiguous", row["name"], "name", f"{name!r} is also {parts[first]['name']}")
            for other, whole in zip(parts, words, strict=True):
                if other is not row and other["bin_of"] != row["name"] and _is_inside(name, row, whole):
                    message = f"{name!r} may as well mean {other['name']}"
                    yield Finding("ambiguous", row["name"], "name", message)


def _is_inside(name: str, row: Row, whole: list[str]) -> bool:
    """Tell whether a name's words stand in another's; "GeForce RTX 4080" may begin "GeForce RTX 4080 SUPER"."""
    at = _position(_words(name), whole)
    return at is not None and (at > 0 or name != row["name"])


def _position(words: list[str], whole: list[str]) -> int | None:
    starts = (start for start, word in enumerate(whole) if word == words[0])
    return next((start for start in starts if whole[start : start + len(words)] == words), None)


@cache
def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _aliases(row: Row) -> list[str]:
    return [alias for alias in row["aliases"].split("; ") if alias]


def _sizes(row: Row) -> set[float]:
    return {float(size) for size in (row["memory_options"] or row["memory_gib"]).split()}


def _sixteen(row: Row) -> float | None:
    return _number(row["bf16_tflops_dense"]) or _number(row["fp16_tflops_dense"])


def _near(value: float, other: float) -> bool:
    return abs(value - other) <= abs(other) * 0.01


def _number(text: str) -> float | None:
    return float(text) if text not in ("", "none") else None

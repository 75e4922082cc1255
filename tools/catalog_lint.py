"""Find common mistakes in rows of the accelerator catalogue. Pure: rows in, findings out; nothing is changed.

A rate with sparsity in a dense column, a vector rate in a matrix column, MiB for GiB, one die for the package,
a bandwidth that the memory cannot have, a link that the architecture does not have, an ambiguous name,
a figure without a source. Typical ratios of an architecture are in ``architectures.csv``; wrong figures that
no rule can detect are in ``mistakes.csv``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.accelerator_name import normalize_name
from gpufleet.catalog.data_file import Row
from tools.catalog_sources import KINDS, LABEL_FIELDS, UNIT_COLUMNS, find_gpu_architecture_row

RATIO_TOLERANCE = 1.35  # clocks and disabled units change a ratio by this much; sparsity changes it by 2 or 4
MAX_VECTOR_SHARE = (
    0.45  # below this share of the expected matrix rate, the figure is that of the vector units
)
SRAM_MIN_GB_S = 20_000  # GB/s that only SRAM reaches: the DRAM rules do not apply
GB_S_PER_GIB_RANGE = (0.3, 100)  # GB/s for each GiB: LPDDR of the largest size, GDDR of the smallest
FLOP_PER_BYTE_RANGE = (
    2,
    1300,
)  # FLOP for each byte of memory traffic: a Pi's processor has 4, Inferentia1 1190
MAX_TFLOPS_PER_WATT = 3.0  # dense 16-bit TFLOPS for each watt: MI350X has 2.3, the most here
DEVICE_WATTS_RANGE = (2, 1600)  # of one device, except wafers
MAX_MEMORY_GIB = 1024  # GiB: a larger figure is in MiB
MIN_USABLE_SHARE = 0.5  # of a memory that software can use
KINDS_WITH_RATIOS = ("gpu_datacenter", "gpu_workstation", "gpu_gaming", "apple", "apu", "tpu")
UNVERIFIED_SOURCE = re.compile(r"\[R\b|recall|from memory|unverified|to be verified", re.IGNORECASE)
PRECISION_RATIOS = (  # rate, base rate, the column with the expected ratio
    ("fp8_tflops_dense", "sixteen", "fp8_per_16"),
    ("fp4_tflops_dense", "fp8_tflops_dense", "fp4_per_fp8"),
    ("int8_tops_dense", "sixteen", "int8_per_16"),
)


@dataclass(frozen=True)
class LintFinding:
    """One mistake: rule, row, field and message."""

    rule: str
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.field}: {self.message} [{self.rule}]"


def lint_accelerators(
    parts: Sequence[Row], architectures: Sequence[Row], mistakes: Sequence[Row]
) -> list[LintFinding]:
    """Return the mistakes in rows of ``accelerators.csv``."""
    findings: list[LintFinding] = []
    for row in parts:
        findings += [
            *_lint_known_mistakes(row, mistakes),
            *_lint_unverified(row),
            *_lint_memory(row),
            *_lint_bandwidth(row),
            *_lint_power(row),
        ]
        findings += _lint_architecture(row, architectures)
    return findings + list(_lint_names(parts))


def lint_field_sources(
    parts: Sequence[Row], field_sources: Sequence[Row], sources: Sequence[Row]
) -> list[LintFinding]:
    """Return fields without a source, unknown sources and sources of empty fields."""
    source_ids = {row["id"] for row in sources}
    sourced = {
        (row["name"], field)
        for row in field_sources
        for field in row["fields"].split()
        if row["source"] in source_ids
    }
    filled = {
        (row["name"], field) for row in parts for field in row if field not in LABEL_FIELDS and row[field]
    }
    missing = [LintFinding("source", *finding, "no source") for finding in sorted(filled - sourced)]
    unused = [
        LintFinding("source", *field, "has a source but is empty") for field in sorted(sourced - filled)
    ]
    unknown = [
        LintFinding("source", row["name"], row["fields"], f"{row['source']!r} is not in sources.csv")
        for row in field_sources
        if row["source"] not in source_ids
    ]
    return [*missing, *unused, *unknown, *(finding for row in sources for finding in _lint_source(row))]


def lint_default_hosts(
    hosts: Iterable[Row], parts: Sequence[Row], sources: Sequence[Row]
) -> list[LintFinding]:
    """Return hosts with a card, board, memory or source that the other files do not have."""
    memory_sizes = {row["name"]: _parse_memory_sizes(row) for row in parts}
    source_ids = {row["id"] for row in sources}
    findings = []
    for row in hosts:
        accelerator = row["accelerator"] or row["board"]
        memory_gib = row["accelerator_memory_gib"] or row["memory_gib"]
        if accelerator not in memory_sizes:
            findings.append(
                LintFinding("host", row["name"], "accelerator", f"{accelerator!r} is not in accelerators.csv")
            )
        elif float(memory_gib) not in memory_sizes[accelerator]:
            findings.append(
                LintFinding(
                    "host", row["name"], "memory_gib", f"{accelerator} is not sold with {memory_gib} GiB"
                )
            )
        if not row["source"] or not set(row["source"].split()) <= source_ids:
            findings.append(
                LintFinding("source", row["name"], "source", f"{row['source']!r} is not in sources.csv")
            )
    return findings


def _lint_source(row: Row) -> Iterator[LintFinding]:
    if row["kind"] not in KINDS:
        yield LintFinding("source", row["id"], "kind", f"{row['kind']!r} is not one of {', '.join(KINDS)}")
    if not row["address"] or not row["title"] or not row["as_of"]:
        yield LintFinding("source", row["id"], "address", "needs a title, an address and a date")
    yield from _lint_unverified({"name": row["id"], "title": row["title"], "address": row["address"]})


def _lint_known_mistakes(row: Row, mistakes: Iterable[Row]) -> Iterator[LintFinding]:
    """Compare a part with wrong figures that circulate for it."""
    for mistake in mistakes:
        value = _parse_number(row.get(mistake["field"], ""))
        if row["name"] == mistake["name"] and value is not None and _is_close(value, float(mistake["value"])):
            yield LintFinding(mistake["rule"], row["name"], mistake["field"], f"{value:g}: {mistake['what']}")


def _lint_unverified(row: Mapping[str, str]) -> Iterator[LintFinding]:
    for field, text in row.items():
        if UNVERIFIED_SOURCE.search(text):
            yield LintFinding("recalled", row["name"], field, "a recollection is not a source")


def _lint_memory(row: Row) -> Iterator[LintFinding]:
    memory, usable = _parse_number(row["memory_gib"]), _parse_number(row["usable_gib"])
    if memory is None:
        yield LintFinding(
            "missing", row["name"], "memory_gib", "a part without memory cannot be used in a plan"
        )
        return
    if memory > MAX_MEMORY_GIB:
        yield LintFinding("unit", row["name"], "memory_gib", f"{memory:g} looks like MiB or MB")
    elif memory != int(memory) and (_parse_number(row["bandwidth_gb_s"]) or 0) < SRAM_MIN_GB_S:
        yield LintFinding(
            "unit",
            row["name"],
            "memory_gib",
            f"{memory:g} is not a size that is sold: is it GB, or usable memory?",
        )
    if memory not in _parse_memory_sizes(row):
        yield LintFinding("unit", row["name"], "memory_options", f"{memory:g} is not one of them")
    if usable is not None and not memory * MIN_USABLE_SHARE <= usable <= memory:
        yield LintFinding(
            "unit", row["name"], "usable_gib", f"{usable:g} of {memory:g}: is it MiB, GB, or of another part?"
        )


def _lint_bandwidth(row: Row) -> Iterator[LintFinding]:
    memory, bandwidth = _parse_number(row["memory_gib"]), _parse_number(row["bandwidth_gb_s"])
    if memory is None or bandwidth is None or bandwidth >= SRAM_MIN_GB_S:
        return
    ratio, (low, high) = bandwidth / memory, GB_S_PER_GIB_RANGE
    if not low <= ratio <= high:
        message = f"{bandwidth:g} GB/s for {memory:g} GiB: is it TB/s, Gb/s, or MiB?"
        yield LintFinding("unit", row["name"], "bandwidth_gb_s", message)
    rate = max(_rate_16_bit(row) or 0, _parse_number(row["fp32_tflops"]) or 0)
    if rate and not FLOP_PER_BYTE_RANGE[0] <= rate * 1000 / bandwidth <= FLOP_PER_BYTE_RANGE[1]:
        message = f"{rate * 1000 / bandwidth:.0f} FLOP per byte: TB/s instead of GB/s, or a wrong rate"
        yield LintFinding("ratio", row["name"], "bandwidth_gb_s", message)


def _lint_power(row: Row) -> Iterator[LintFinding]:
    watts, rate = _parse_number(row["tdp_w"]), _rate_16_bit(row)
    if watts is None:
        return
    wafer = (_parse_number(row["bandwidth_gb_s"]) or 0) >= SRAM_MIN_GB_S
    if not wafer and not DEVICE_WATTS_RANGE[0] <= watts <= DEVICE_WATTS_RANGE[1]:
        yield LintFinding(
            "watts", row["name"], "tdp_w", f"no device draws {watts:g} W: is it in kW, or of a rack?"
        )
    elif rate is not None and rate / watts > MAX_TFLOPS_PER_WATT:
        yield LintFinding(
            "watts", row["name"], "tdp_w", f"{rate / watts:.1f} TFLOPS per watt is more than any device has"
        )


def _lint_architecture(row: Row, architectures: Iterable[Row]) -> Iterator[LintFinding]:
    architecture = find_gpu_architecture_row(row, architectures)
    if architecture is None:
        if row["kind"] in KINDS_WITH_RATIOS:
            yield LintFinding(
                "missing", row["name"], "architecture", "has no row in architectures.csv to compare with"
            )
        return
    for field, column in UNIT_COLUMNS:
        if row[field] and architecture[column] == "none":
            yield LintFinding(
                "precision", row["name"], field, f"{architecture['architecture']} has no unit for it"
            )
    yield from _lint_16_bit_rates(row, architecture)
    yield from (
        finding for ratio in PRECISION_RATIOS for finding in _lint_precision(row, architecture, *ratio)
    )
    max_bandwidth, bandwidth = float(architecture["bandwidth_to"]), _parse_number(row["bandwidth_gb_s"]) or 0
    if bandwidth > max_bandwidth * 1.01:
        message = (
            f"{bandwidth:g} GB/s: no {architecture['architecture']} part has more than {max_bandwidth:g}"
        )
        yield LintFinding("ratio", row["name"], "bandwidth_gb_s", message)
    if row["link"] and not row["link"].startswith(
        tuple(architecture["links"].split("; ")) if architecture["links"] else ()
    ):
        message = f"{architecture['architecture']} has {architecture['links'] or 'no link'}"
        yield LintFinding("link", row["name"], "link", message)
    if (
        row["kind"] == "gpu_gaming"
        and row["vendor"] == "NVIDIA"
        and not row["link"]
        and row["peer_access"] == "yes"
    ):
        yield LintFinding("link", row["name"], "peer_access", "standard drivers disable it on GeForce cards")


def _lint_16_bit_rates(row: Row, architecture: Row) -> Iterator[LintFinding]:
    """Compare fp16 and bf16 with fp32: a doubled ratio is sparsity, a ratio of 1 is the vector units."""
    expected_ratio, fp32_rate = (
        _parse_number(architecture["matrix_per_fp32"]),
        _parse_number(row["fp32_tflops"]),
    )
    for field in ("fp16_tflops_dense", "bf16_tflops_dense"):
        rate = _parse_number(row[field])
        if expected_ratio is None or fp32_rate is None or rate is None:
            continue
        ratio, message = rate / fp32_rate, f"{rate / fp32_rate:.1f} x fp32, expected {expected_ratio:g} x"
        if ratio > expected_ratio * RATIO_TOLERANCE:
            yield LintFinding("sparse", row["name"], field, f"{message}: is it with sparsity?")
        elif expected_ratio > 1 and _is_vector_rate(row, field, ratio, expected_ratio):
            yield LintFinding("vector", row["name"], field, f"{message}: is it the rate of the vector units?")


def _is_vector_rate(row: Row, field: str, ratio: float, expected_ratio: float) -> bool:
    is_slower_fp16 = (
        field == "fp16_tflops_dense" and row["kind"] == "asic"
    )  # Gaudi3's fp16 is a quarter of its bf16
    return not is_slower_fp16 and (
        ratio < expected_ratio * MAX_VECTOR_SHARE
        or (_is_close(ratio, 1) and expected_ratio > RATIO_TOLERANCE)
    )


def _lint_precision(row: Row, architecture: Row, field: str, base: str, column: str) -> Iterator[LintFinding]:
    """Compare a lower precision with the next higher one on this architecture."""
    rate, expected_ratio = _parse_number(row[field]), _parse_number(architecture[column])
    base_rate = _rate_16_bit(row) if base == "sixteen" else _parse_number(row[base])
    if rate is None or base_rate is None or expected_ratio is None:
        return
    if rate / base_rate > expected_ratio * RATIO_TOLERANCE:
        message = f"{rate / base_rate:.1f} x the next precision, expected {expected_ratio:g} x: is it with sparsity?"
        yield LintFinding("sparse", row["name"], field, message)
    elif rate / base_rate < expected_ratio * MAX_VECTOR_SHARE:
        message = f"{rate / base_rate:.2f} x the next precision, expected {expected_ratio:g} x: another unit's rate?"
        yield LintFinding("ratio", row["name"], field, message)


def _lint_names(parts: Sequence[Row]) -> Iterator[LintFinding]:
    """Find ambiguous names: a repeated name, or one that is part of another part's name."""
    name_words = [_split_words(row["name"]) for row in parts]
    index_by_name: dict[str, int] = {}
    for index, row in enumerate(parts):
        for name in (row["name"], *_parse_aliases(row)):
            first_index = index_by_name.setdefault(normalize_name(name), index)
            if first_index != index:
                yield LintFinding(
                    "ambiguous", row["name"], "name", f"{name!r} is also {parts[first_index]['name']}"
                )
            for other, other_words in zip(parts, name_words, strict=True):
                if (
                    other is not row
                    and other["bin_of"] != row["name"]
                    and _is_inside_name(name, row, other_words)
                ):
                    message = f"{name!r} may also mean {other['name']}"
                    yield LintFinding("ambiguous", row["name"], "name", message)


def _is_inside_name(name: str, row: Row, other_words: list[str]) -> bool:
    """Return whether a name is part of another; "RTX 4080" may begin "RTX 4080 SUPER"."""
    position = _find_sequence(_split_words(name), other_words)
    return position is not None and (position > 0 or name != row["name"])


def _find_sequence(sequence: list[str], name_words: list[str]) -> int | None:
    starts = (start for start, token in enumerate(name_words) if token == sequence[0])
    return next((start for start in starts if name_words[start : start + len(sequence)] == sequence), None)


@cache
def _split_words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _parse_aliases(row: Row) -> list[str]:
    return [alias for alias in row["aliases"].split("; ") if alias]


def _parse_memory_sizes(row: Row) -> set[float]:
    return {float(size) for size in (row["memory_options"] or row["memory_gib"]).split()}


def _rate_16_bit(row: Row) -> float | None:
    return _parse_number(row["bf16_tflops_dense"]) or _parse_number(row["fp16_tflops_dense"])


def _is_close(value: float, other: float) -> bool:
    return abs(value - other) <= abs(other) * 0.01


def _parse_number(text: str) -> float | None:
    return float(text) if text not in ("", "none") else None

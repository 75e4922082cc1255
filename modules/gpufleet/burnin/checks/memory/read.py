"""Size of the memory, patterns, error counters and copy rate."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    build_check_readings,
    drop_missing_metrics,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.stress_ng import read_stress_ng

# What a Linux kernel does not count as total memory: 64 bytes of struct page for each page of 4 KiB
# (Documentation/mm/vmemmap_dedup), and what firmware and a crash kernel reserve (policy).
PAGE_STRUCT_SHARE, FIRMWARE_SHARE, FIRMWARE_GIB = 64 / 4096, 0.01, 4.0
# Twelve modules of 16 GiB: a smaller machine may share its memory with a GPU whose firmware keeps more of it.
SMALLEST_SERVER_GIB = 192.0
DAY_S = 86_400.0


def read_record(raw: Raw) -> CheckReadings:
    """Count wrong and missing memory and uncorrected errors; read the copy rate."""
    total, expected = to_finite_number(raw.get("total_gib")), to_finite_number(raw.get("expect_memory_gib"))
    wrong_mib = [to_finite_number(value) for value in mapping_or_empty(raw.get("wrong_mib")).values()]
    counts = [
        to_finite_number(mapping_or_empty(counter).get("ue"))
        for counter in mapping_or_empty(raw.get("edac")).values()
    ]
    known = [count for count in counts if count is not None]
    corrected = list_corrected_errors(raw)
    days = max((to_finite_number(raw.get("uptime_s")) or 0.0) / DAY_S, 1.0)
    metrics = drop_missing_metrics(
        total_gib=total,
        total_share=total / expected if total is not None and expected else None,
        missing_gib=count_missing_gib(total, expected) if total is not None and expected else None,
        wrong_mib=sum(value for value in wrong_mib if value is not None)
        if wrong_mib and None not in wrong_mib
        else None,
        uncorrected_errors=sum(known) if known else None,
        corrected_per_day=max((count for _, count in corrected), default=0.0) / days if corrected else None,
        copy_mb_per_s=to_finite_number(raw.get("copy_mb_per_s")),
        cache_multiple=compute_cache_multiple(raw),
    )
    stress = build_check_readings(read_stress_ng(mapping_or_empty(raw.get("stress_ng"))), None, "")
    return replace(
        stress,
        metrics={**metrics, **stress.metrics},
        display_value=metrics.get("copy_mb_per_s"),
        unit="MB/s",
        details={
            **dict.fromkeys(("missing_gib", "total_share"), f"{total or 0:g} of {expected or 0:g} GiB"),
            "corrected_per_day": name_modules(corrected, " since boot"),
            "uncorrected_errors": name_modules(list_module_errors(raw, "ue"), ""),
        },
    )


def list_module_errors(raw: Raw, kind: str) -> list[tuple[str, float]]:
    """Return the errors of each memory module, by its label on the board if it has one."""
    modules = map(mapping_or_empty, list_or_empty(raw.get("dimms")))
    counts = [
        (str(module.get("label") or module.get("name")), to_finite_number(module.get(kind)))
        for module in modules
    ]
    return [(name, count) for name, count in counts if count is not None]


def list_corrected_errors(raw: Raw) -> list[tuple[str, float]]:
    """Return the corrected errors of each module; of each controller where the kernel does not tell modules apart."""
    modules = list_module_errors(raw, "ce")
    if modules or to_finite_number(raw.get("uptime_s")) is None:
        return modules
    counts = [
        (str(name), to_finite_number(mapping_or_empty(counter).get("ce")))
        for name, counter in mapping_or_empty(raw.get("edac")).items()
    ]
    return [(name, count) for name, count in counts if count is not None]


def name_modules(counts: list[tuple[str, float]], suffix: str) -> str:
    """Return the modules with the most errors."""
    worst = sorted(counts, key=lambda entry: -entry[1])[:4]
    return ", ".join(f"{name} {count:g}{suffix}" for name, count in worst if count)


def count_missing_gib(total: float, expected: float) -> float | None:
    """Return the missing memory beyond what kernel and firmware keep of it; None where that is not known.

    A share of the declared memory that suits a small board hides a DIMM: one of 16 is 6 % of a server's memory. What
    firmware keeps for a GPU in the same memory varies: a DGX Spark shows 119.7 of 128 GiB.
    """
    if expected < SMALLEST_SERVER_GIB:
        return None
    reserved_gib = expected * (PAGE_STRUCT_SHARE + FIRMWARE_SHARE) + FIRMWARE_GIB
    return max(0.0, expected - reserved_gib - total)


def compute_cache_multiple(raw: Raw) -> float | None:
    """Return how many times the largest cache fits into the smaller one of the areas tested and copied."""
    cache, tested, copied = (
        to_finite_number(raw.get(name)) for name in ("largest_cache_mib", "tested_mib", "copy_mib")
    )
    return min(tested, copied) / cache if cache and tested is not None and copied is not None else None

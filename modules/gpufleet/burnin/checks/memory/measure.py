"""Memory: its size, patterns written and read back over a bounded share, and copy bandwidth."""

from __future__ import annotations

import hashlib
import math
import mmap
import re
import time
from typing import Any

from ...agent.fabric import read_uptime_s
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from ...agent.meminfo import MAX_MEMORY_SHARE, parse_meminfo
from ...agent.stress_ng import run_stress_ng

MIB = 1 << 20
# Every bit both ways, its neighbours opposed; then address-dependent blocks, which show crossed lines.
PATTERNS = (b"\x00", b"\xff", b"\x55", b"\xaa")
MIN_COPY_MIB = 16
FILL_BLOCK = b"\xa5" * MIB
# An area smaller than this many times the largest cache tests the cache.
CACHE_MULTIPLE = 4
MAX_MODULES = 128
CACHE_SIZE = re.compile(r"(\d+)([KMG]?)")
CACHE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def build_unique_memory_block(index: int) -> bytes:
    """Return a MiB that belongs to one address only."""
    return hashlib.sha256(index.to_bytes(8, "big")).digest() * (MIB // 32)


def write_and_count_wrong_blocks(area: memoryview, blocks: list[bytes]) -> int:
    """Write one block for each MiB, then read all back; return how many MiB differ."""
    for index, block in enumerate(blocks):
        area[index * MIB : (index + 1) * MIB] = block
    return sum(area[index * MIB : (index + 1) * MIB] != block for index, block in enumerate(blocks))


def write_and_verify_patterns(area: memoryview, mib: int) -> dict[str, int]:
    """Return MiB that read back wrong, for each pattern."""
    wrong_mib = {
        pattern.hex(): write_and_count_wrong_blocks(area, [pattern * MIB] * mib) for pattern in PATTERNS
    }
    wrong_mib["address"] = sum(
        write_and_count_wrong_blocks(
            area[start * MIB : stop * MIB], [build_unique_memory_block(index) for index in range(start, stop)]
        )
        for start, stop in ((start, min(start + 64, mib)) for start in range(0, mib, 64))
    )
    return wrong_mib


def measure_copy_mb_per_s(seconds: float, buffer_mib: int) -> float:
    """Return the best MB copied per second from one buffer to another within a time."""
    with mmap.mmap(-1, buffer_mib * MIB) as source, mmap.mmap(-1, buffer_mib * MIB) as target:
        # Written first: the kernel gives a page at its first write, which is no part of a copy.
        for index in range(buffer_mib):
            source[index * MIB : (index + 1) * MIB] = target[index * MIB : (index + 1) * MIB] = FILL_BLOCK
        view, best, started = memoryview(source), 0.0, time.monotonic()
        while best == 0.0 or time.monotonic() - started < seconds:
            before = time.perf_counter()
            target[:] = view
            best = max(best, buffer_mib * MIB / (time.perf_counter() - before) / 1e6)
        view.release()
    return best


def read_edac_error_counts(host: HostAccess) -> dict[str, Any]:
    """Return the memory controllers' corrected and uncorrected error counts, where the kernel has them."""
    base = "/sys/devices/system/edac/mc"
    controllers = [name for name in host.list_folder(base) if re.fullmatch(r"mc\d+", name)]
    return {
        name: {kind: host.read_integer_file(f"{base}/{name}/{kind}_count") for kind in ("ce", "ue")}
        for name in controllers
    }


def read_dimm_error_counts(host: HostAccess) -> list[dict[str, Any]]:
    """Return each module's corrected and uncorrected errors since boot, with its label on the board."""
    base = "/sys/devices/system/edac/mc"
    modules = [
        f"{controller}/{module}"
        for controller in host.list_folder(base)
        if re.fullmatch(r"mc\d+", controller)
        for module in host.list_folder(f"{base}/{controller}")
        if re.fullmatch(r"(dimm|rank)\d+", module)
    ]
    return [
        {
            "name": name,
            "label": (host.read_text_file(f"{base}/{name}/dimm_label") or "")[:80],
            **{kind: host.read_integer_file(f"{base}/{name}/dimm_{kind}_count") for kind in ("ce", "ue")},
        }
        for name in modules[:MAX_MODULES]
    ]


def read_largest_cache_mib(host: HostAccess) -> float | None:
    """Return the MiB of the largest cache of any core; None where the kernel does not say (older device trees)."""
    base, sizes = "/sys/devices/system/cpu", []
    for core in host.list_folder(base):
        if not re.fullmatch(r"cpu\d+", core):
            continue
        for index in host.list_folder(f"{base}/{core}/cache"):
            match = CACHE_SIZE.fullmatch(host.read_text_file(f"{base}/{core}/cache/{index}/size") or "")
            if match:
                sizes.append(int(match[1]) * CACHE_UNITS[match[2]] / MIB)
    return max(sizes, default=None)


def choose_area_mib(requested_mib: int, cache_mib: float | None, limit_mib: int) -> int:
    """Return the size of an area: as requested, larger than the caches, within the limit."""
    return min(max(requested_mib, math.ceil((cache_mib or 0) * CACHE_MULTIPLE)), limit_mib)


def measure_host(host: HostAccess) -> RawCheckResult:
    """Fill a share of what is free, verify it, then time copies."""
    sizes = parse_meminfo(host.read_text_file("/proc/meminfo") or "")
    if "MemTotal" not in sizes:
        return build_not_run_result("/proc/meminfo has no MemTotal")
    free = sizes.get("MemAvailable", sizes.get("MemFree", 0))
    raw: dict[str, Any] = {
        "total_gib": round(sizes["MemTotal"] / 2**30, 3),
        "available_gib": round(free / 2**30, 3),
        "expect_memory_gib": host.get_parameter("expect_memory_gib", 0.0),
        "edac": read_edac_error_counts(host),
    }
    cache_mib = raw["largest_cache_mib"] = read_largest_cache_mib(host)
    # Many rehearsed hosts share one memory: their areas stay as small as requested.
    wanted_cache_mib = None if host.get_parameter("rehearsal", False) else cache_mib
    limit_mib = int(free * MAX_MEMORY_SHARE / MIB)
    mib = choose_area_mib(host.get_parameter("memory_mib", 512), wanted_cache_mib, limit_mib)
    if mib < 2 * MIN_COPY_MIB:
        return build_error_result(f"only {free // MIB} MiB available, too little to test", **raw)
    with mmap.mmap(-1, mib * MIB) as area, memoryview(area) as view:
        raw["tested_mib"], raw["wrong_mib"] = mib, write_and_verify_patterns(view, mib)
    # Errors that the patterns provoked are counted by now.
    raw |= {"edac": read_edac_error_counts(host), "dimms": read_dimm_error_counts(host)}
    raw["uptime_s"] = read_uptime_s(host)
    raw["copy_mib"] = choose_area_mib(MIN_COPY_MIB, wanted_cache_mib, limit_mib // 2)
    raw["copy_mb_per_s"] = round(
        measure_copy_mb_per_s(host.get_parameter("memory_seconds", 5.0), raw["copy_mib"]), 1
    )
    raw["stress_ng"] = run_stress_ng(host, "--vm", "1", "--vm-bytes", f"{mib}m", "--vm-method", "all")
    return RawCheckResult("ran", measured=raw["copy_mb_per_s"], unit="MB/s", raw=raw)

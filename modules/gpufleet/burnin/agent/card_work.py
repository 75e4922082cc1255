"""The work of one card's test, in order: products and memory under the sensors' eyes, then copies with the host."""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .card_bench import CardBench, work_on_products
from .card_device import GROUP_BYTES, Card
from .card_memory import choose_chunk_bytes, work_on_copies, work_on_memory
from .clibrary import LibraryError
from .drm import CardSensors
from .host import HostAccess, RawCheckResult, build_not_run_result
from .meminfo import MAX_MEMORY_SHARE, parse_meminfo
from .nvml import GpuSensors
from .sensor_series import SensorRecorder

SENSOR_SECONDS, COPY_SENSOR_SECONDS = 0.25, 0.05
# These share the host's memory: no more of it is taken than the memory check takes.
SHARED_MEMORY = {"integrated", "cpu"}


def bound_tested_bytes(host: HostAccess, device_type: str, free: int) -> int:
    """Return how much memory may be tested."""
    share = host.get_parameter("card_memory_share", 0.9)
    if device_type not in SHARED_MEMORY:
        return int(free * share)
    available = parse_meminfo(host.read_text_file("/proc/meminfo") or "").get("MemAvailable", 0)
    return int(min(free * share, available * MAX_MEMORY_SHARE))


def work_on_memory_share(
    host: HostAccess, bench: CardBench, device_type: str, seconds: float
) -> dict[str, Any]:
    """Test the share of the free memory that a device of this type may use."""
    free = bench.device.free_bytes()
    allowed = bound_tested_bytes(host, device_type, free)
    # Two chunks at least: one is copied over the other.
    half = max(GROUP_BYTES, allowed // 2 // GROUP_BYTES * GROUP_BYTES)
    chunk_bytes = min(choose_chunk_bytes(bench, host.get_parameter("card_chunk_mib", 256) << 20), half)
    flips_bit = host.get_parameter("gpu_flip_bit", False)
    record = work_on_memory(bench, allowed, chunk_bytes, seconds, flips_bit=flips_bit)
    return {"free_bytes": free, "allowed_bytes": allowed, **record}


def work_on_card(
    host: HostAccess, device: Card, record: dict[str, Any], sensors: CardSensors | GpuSensors | None
) -> dict[str, Any]:
    """Do all of the work; ``record`` says what the card is, and its ``type`` how much memory is its own."""
    bench = CardBench(device)
    seconds, flips_bit = host.get_parameter("card_seconds", 10.0), host.get_parameter("gpu_flip_bit", False)
    record["errors_before"] = sensors.read_errors() if sensors else {}
    with SensorRecorder(sensors, SENSOR_SECONDS) as recorder:
        size = host.get_parameter("card_size", 4096)
        record["matmul"] = work_on_products(bench, size, seconds, flips_bit=flips_bit)
        record["memory"] = work_on_memory_share(host, bench, record["type"], seconds / 2)
    record["series"] = recorder.build_record() if sensors else {}
    copy_bytes = choose_chunk_bytes(bench, host.get_parameter("card_copy_mib", 64) << 20)
    with SensorRecorder(sensors, COPY_SENSOR_SECONDS) as recorder:
        copies = work_on_copies(bench, copy_bytes, seconds / 10, flips_bit=flips_bit)
    record["copy"] = {**copies, "series": recorder.build_record() if sensors else {}}
    record["slot"] = sensors.describe_slot() if isinstance(sensors, CardSensors) else {}
    record["errors_after"] = sensors.read_errors() if sensors else {}
    return {**record, "compile_s": round(bench.compile_s, 3)}


def try_work(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do a card's work, or return what its library failed with."""
    try:
        return work()
    except LibraryError as error:
        return {"failed": str(error), "code": error.code}


def compute_work_limit_s(host: HostAccess) -> float:
    """Return the seconds after which one card's work is ended: the work takes 1.6 times, a slow card twice that."""
    return float(3 * host.get_parameter("card_seconds", 10.0) + 120)


def build_cards_result(raw: dict[str, Any], answers: list[dict[str, Any]]) -> RawCheckResult:
    """Return the result of all cards; it is not run only if every card is busy.

    An answer is the worker's record, or what ``try_work`` returned under ``value``; there is at least one.
    """
    raw["devices"] = [answer.get("value", answer) for answer in answers]
    busy = [device["busy"] for device in raw["devices"] if "busy" in device]
    # One busy card must not hide what another one got wrong.
    if len(busy) == len(answers):
        return build_not_run_result(busy[0], **raw)
    return RawCheckResult("ran", measured=len(answers), unit="GPUs", raw=raw)

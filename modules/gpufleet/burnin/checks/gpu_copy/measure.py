"""Copies between host and GPU and between GPUs: rates, contents, and the link's state while it is busy."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from ...agent.cuda_driver import CONSTANTS, CudaDevice
from ...agent.gpu_device import GpuWorkbench, run_on_every_gpu
from ...agent.host import HostAccess, RawCheckResult
from ...agent.sensor_series import SensorRecorder

SENSOR_SECONDS = 0.05
QUEUED = 4


def fill(bench: GpuWorkbench, address: int, size: int, seed: int) -> None:
    """Write a pattern to device memory."""
    bench.fill_pattern(address, size, seed)
    bench.device.synchronize()


def count_wrong_vectors(bench: GpuWorkbench, address: int, size: int, seed: int) -> int:
    """Return how much of a range differs from its pattern."""
    bench.clear_counts()
    bench.verify_pattern(address, size, seed)
    bench.device.synchronize()
    return bench.read_counts()[0]


def time_copies(bench: GpuWorkbench, queue: Callable[[], None], size: int, seconds: float) -> float:
    """Repeat queued copies for a time; return GB/s."""
    queue()
    bench.device.synchronize()
    count, started = 0, time.perf_counter()
    while not count or time.perf_counter() - started < seconds:
        for _ in range(QUEUED):
            queue()
        bench.device.synchronize()
        count += QUEUED
    return round(count * size / (time.perf_counter() - started) / 1e9, 2)


def copy_with_host(bench: GpuWorkbench, size: int, seconds: float, *, flips_bit: bool) -> dict[str, Any]:
    """Copy a pattern to the host and back to another place, then measure each direction and both."""
    device, driver = bench.device, bench.device.driver
    source, target = device.allocate(size), device.allocate(size)
    buffers = [device.allocate_pinned(size) for _ in range(2)]
    streams = [device.create_stream() for _ in range(2)]

    def to_host() -> None:
        driver.call("cuMemcpyDtoHAsync_v2", buffers[0], source, size, streams[0])

    def to_device(buffer: int) -> None:
        driver.call("cuMemcpyHtoDAsync_v2", target, buffer, size, streams[1])

    def both_ways() -> None:
        to_host()
        to_device(buffers[1])

    fill(bench, source, size, 1)
    fill(bench, target, size, 2)
    to_host()
    device.synchronize()
    if flips_bit:
        byte = ctypes.c_ubyte.from_address(buffers[0] + size // 2)
        byte.value ^= 1
    to_device(buffers[0])
    device.synchronize()
    record: dict[str, Any] = {"bytes": size, "wrong_vectors": count_wrong_vectors(bench, target, size, 1)}
    with SensorRecorder(bench.sensors, SENSOR_SECONDS) as recorder:
        record["to_device_gb_per_s"] = time_copies(bench, lambda: to_device(buffers[0]), size, seconds)
        record["to_host_gb_per_s"] = time_copies(bench, to_host, size, seconds)
        record["both_gb_per_s"] = time_copies(bench, both_ways, 2 * size, seconds)
    record["series"] = recorder.build_record()
    for buffer in buffers:
        driver.call("cuMemFreeHost", buffer)
    device.free(source, target)
    return record


def copy_to_peer(bench: GpuWorkbench, number: int, size: int, seconds: float) -> dict[str, Any]:
    """Copy a pattern to another GPU and back; peers without direct access copy through the host."""
    device, driver = bench.device, bench.device.driver
    peer = CudaDevice(driver, number)
    far = peer.allocate(size)
    driver.call("cuCtxSetCurrent", device.context)
    access = driver.read_number("cuDeviceCanAccessPeer", ctypes.c_int, device.device, peer.device)
    if access:
        code = driver.try_call("cuCtxEnablePeerAccess", peer.context, 0)
        access = int(code in (0, CONSTANTS["CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"]))
    near, back = device.allocate(size), device.allocate(size)
    fill(bench, near, size, 3)

    def send() -> None:
        driver.call("cuMemcpyPeerAsync", far, peer.context, near, device.context, size, None)

    send()
    driver.call("cuMemcpyPeerAsync", back, device.context, far, peer.context, size, None)
    device.synchronize()
    record = {
        "peer": peer.bus_id,
        "direct": bool(access),
        "wrong_vectors": count_wrong_vectors(bench, back, size, 3),
        "gb_per_s": time_copies(bench, send, size, seconds),
    }
    device.free(near, back)
    driver.call("cuCtxSetCurrent", peer.context)
    peer.free(far)
    driver.call("cuCtxSetCurrent", device.context)
    return record


def read_slot(host: HostAccess, bus_id: str) -> dict[str, Any]:
    """Return the links of the card and of the port above it, as sysfs has them."""
    address = bus_id[-12:]
    card = host.resolve_path(f"/sys/bus/pci/devices/{address}")
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    folders = {"card": str(card), "port": str(card.resolve().parent)}
    root = host.root.rstrip("/")
    return {
        place: {name: host.read_text_file(f"{folder[len(root) :]}/{name}") for name in names}
        for place, folder in folders.items()
    }


def work_on_gpu(bench: GpuWorkbench, host: HostAccess) -> dict[str, Any]:
    """Do all of the check on one GPU."""
    size, seconds = host.get_parameter("gpu_copy_mib", 256) << 20, host.get_parameter("gpu_copy_seconds", 1.0)
    flips_bit = host.get_parameter("gpu_flip_bit", False)
    record = {**bench.describe(), **copy_with_host(bench, size, seconds, flips_bit=flips_bit)}
    count, own = bench.device.driver.count_devices(), bench.device.ordinal
    record["peers"] = [copy_to_peer(bench, peer, size, seconds / 4) for peer in range(count) if peer != own]
    return {**record, "slot": read_slot(host, bench.bus_id), "errors_after": bench.read_errors()}


def measure_host(host: HostAccess) -> RawCheckResult:
    """Measure one GPU after the other, so that each has the host's memory to itself."""
    seconds = host.get_parameter("gpu_copy_seconds", 1.0)
    limit = 30 * seconds + 120
    return run_on_every_gpu(host, lambda bench: work_on_gpu(bench, host), limit, in_turn=True)

"""RDMA writes between two nodes with perftest's ib_write_bw: one run for each device that both nodes have."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .network_stream import is_listening

DEVICES = "/sys/class/infiniband"
MAX_DEVICES = 16
SECONDS_A_DEVICE = 2
START_SECONDS, MARGIN_SECONDS = 5.0, 10.0
# "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]" (perftest/src/perftest_parameters.h)
COLUMNS, AVERAGE_COLUMN = 5, 3


def list_active_devices(folder: str = DEVICES) -> list[str]:
    """Return the RDMA devices with an active port, if perftest is there."""
    if shutil.which("ib_write_bw") is None:
        return []
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(os.listdir(folder))[:MAX_DEVICES]:  # noqa: PTH208 - fewer imports
            with contextlib.suppress(OSError):
                for port in os.listdir(f"{folder}/{device}/ports"):  # noqa: PTH208
                    with open(f"{folder}/{device}/ports/{port}/state", encoding="ascii") as file:  # noqa: PTH123
                        if "ACTIVE" in file.read(64) and device not in found:
                            found.append(device)
    return found


def build_command(device: str, port: int, seconds: float) -> list[str]:
    """Return the command of both ends; the client adds the server's address."""
    limit = str(int(seconds + MARGIN_SECONDS))
    options = ["-F", "--report_gbits", "-d", device, "-p", str(port), "-D", str(max(1, round(seconds)))]
    return ["timeout", limit, "ib_write_bw", *options]


def start_rdma_server(device: str, port: int, seconds: float) -> bool:
    """Start a server for one run; return whether it listens. It ends after the run or the time."""
    if device not in list_active_devices():
        return False
    null = subprocess.DEVNULL
    process = subprocess.Popen(build_command(device, port, seconds), stdin=null, stdout=null, stderr=null)
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if is_listening(port):  # a connection to find out would be its one run
            return True
        time.sleep(0.05)
    return False


def read_average_gbit(output: str) -> float | None:
    """Return the average rate that ib_write_bw printed, None if there is none."""
    for line in reversed(output.splitlines()):
        columns = line.split()
        if len(columns) == COLUMNS and columns[0].isdigit():
            with contextlib.suppress(ValueError):
                return float(columns[AVERAGE_COLUMN])
    return None


def measure_rdma(
    address: str, port: int, seconds: float, ask: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """Return the sum of the rates of all devices that both ends have, and each rate; nothing without devices."""
    own = list_active_devices()
    shared = [device for device in own if device in ask("rdma_devices").get("devices", [])] if own else []
    rates: dict[str, float] = {}
    for device in shared:
        if not ask("rdma", device=device, port=port, seconds=seconds).get("ready"):
            continue
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            done = subprocess.run(
                [*build_command(device, port, seconds), address],
                capture_output=True, text=True, timeout=seconds + 2 * MARGIN_SECONDS, check=False,
            )  # fmt: skip
            rate = read_average_gbit(done.stdout)
            if rate is not None:
                rates[device] = rate
    if not shared:
        return {}
    if not rates:
        return {"rdma_missing": "ib_write_bw gave no rate on any device"}
    return {"rdma_gbit": round(sum(rates.values()), 2), "rdma_devices": rates}

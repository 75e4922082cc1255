"""The system clock: whether the kernel calls it synchronised, its offset, and how far the controller's is away.

What `timedatectl` calls synchronised is the kernel's answer too; so that tool is not asked.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from ...agent.host import HostAccess, RawCheckResult

COMMAND_SECONDS = 10.0
TIMEX_FIELDS = ("offset", "freq", "maxerror", "esterror", "status")


class Timex(ctypes.Structure):
    """Linux's struct timex (adjtimex(2)); the kernel also writes what comes after the fields that are read."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    ]


def read_kernel_clock() -> dict[str, Any]:
    """Return the kernel's clock state: adjtimex's result and the fields that say how good the clock is."""
    timex = Timex()  # modes 0: only read
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "adjtimex"):
        return {"error": "this C library has no adjtimex"}
    state = library.adjtimex(ctypes.byref(timex))
    if state < 0:
        return {"error": os.strerror(ctypes.get_errno())}
    return {"state": state, **{name: getattr(timex, name) for name in TIMEX_FIELDS}}


def read_chrony(host: HostAccess) -> dict[str, Any]:
    """Return chronyd's tracking report as comma-separated text, where chrony runs."""
    if host.which("chronyc") is None:
        return {"reason": "chronyc is not installed"}
    output = host.run(
        ["chronyc", "-n", "-c", "tracking"], COMMAND_SECONDS
    )  # -n: no name lookup, which could hang
    return {"code": output.code, "text": (output.out or output.err)[:500]}


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the clock; its check runs first, for the controller's time was taken just before the agent started."""
    raw: dict[str, Any] = {"kernel": read_kernel_clock(), "chrony": read_chrony(host)}
    controller_time = host.get_parameter("controller_time", 0.0)
    if controller_time:
        raw["skew_s"] = round(time.time() - controller_time, 3)
    return RawCheckResult("ran", measured=raw.get("skew_s"), unit="s", raw=raw)

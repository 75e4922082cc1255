"""stress-ng: stressors that verify their own results, where it is installed and requested."""

from __future__ import annotations

import math
import re
from typing import Any

from .host import HostAccess

# The lines that are kept: what failed, and the metrics of each stressor.
KEPT_CHARACTERS = 2000
MOST_FAILURES = 8
# stress-ng restarts a stressor that was killed, and ends with 0: only its debug lines say so.
DEBUG = re.compile(r"^stress-ng: debug:")
CHILD_DIED = re.compile(r"\bchild died: signal (\d+)")
FAILURE = re.compile(r"^stress-ng: fail:")
OUT_OF_MEMORY = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def run_stress_ng(host: HostAccess, *stressors: str) -> dict[str, Any]:
    """Run stressors with verification; the controller reads exit code, failures and metrics from the text."""
    seconds = math.ceil(host.get_parameter("stress_ng_seconds", 0.0))
    if not seconds:
        return {"ran": False, "reason": "not requested (stress_ng_seconds)"}
    if host.which("stress-ng") is None:
        return {"ran": False, "reason": "stress-ng is not installed"}
    argv = ["stress-ng", "--verbose", *stressors, "--verify", "--metrics-brief", "--timeout", f"{seconds}s"]
    before = count_oom_kills(host)
    process = host.run(argv, seconds + 30)
    after = count_oom_kills(host)
    lines = (process.out + process.err).splitlines()
    return {
        "ran": True,
        "seconds": seconds,
        "code": process.code,
        "failures": [line[:200] for line in lines if FAILURE.match(line)][:MOST_FAILURES],
        "child_signals": sorted({int(match[1][:3]) for line in lines if (match := CHILD_DIED.search(line))})[
            :8
        ],
        "oom_kills": None if before is None or after is None else after - before,
        "text": "\n".join(line for line in lines if not DEBUG.match(line))[-KEPT_CHARACTERS:],
    }


def count_oom_kills(host: HostAccess) -> int | None:
    """Return how many processes the kernel has killed for want of memory since it started; None if it doesn't say."""
    match = OUT_OF_MEMORY.search(host.read_text_file("/proc/vmstat") or "")
    return int(match[1]) if match else None

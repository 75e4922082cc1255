"""stress-ng: stressors that verify their own results, where it is installed and requested."""

from __future__ import annotations

import math
from typing import Any

from .host import HostAccess

# The lines that are kept: what failed, and the metrics of each stressor.
KEPT_CHARACTERS = 2000


def run_stress_ng(host: HostAccess, *stressors: str) -> dict[str, Any]:
    """Run stressors with verification; the controller reads exit code, failures and metrics from the text."""
    seconds = math.ceil(host.get_parameter("stress_ng_seconds", 0.0))
    if not seconds:
        return {"ran": False, "reason": "not requested (stress_ng_seconds)"}
    if host.which("stress-ng") is None:
        return {"ran": False, "reason": "stress-ng is not installed"}
    argv = ["stress-ng", *stressors, "--verify", "--metrics-brief", "--timeout", f"{seconds}s"]
    process = host.run(argv, seconds + 30)
    return {"ran": True, "code": process.code, "text": (process.out + process.err)[-KEPT_CHARACTERS:]}

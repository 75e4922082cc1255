"""What stress-ng's own verification says: shared by the checks that also run it.

Exit code 2 means that a stressor failed. It also comes if somebody kills one: its counter then differs from the copy
that stress-ng keeps. So only a failure of a stressor's own verification is a wrong answer (docs/burn-in-agent.md).
"""

from __future__ import annotations

import re

from gpufleet.burnin.evidence import NOT_APPLICABLE, Raw, Reading, list_or_empty, to_finite_number

# stress-ng(1), EXIT STATUS: 2 is a stressor that failed; the others are about options, resources and the run itself.
STRESS_NG_FAILED = 2
# A row of --metrics-brief: stressor, operations, three times, two rates. Older versions log it as info.
STRESS_NG_ROW = re.compile(r"(?:metrc|info): +\[\d+\] ([a-z][\w-]*) +(\d+)(?: +\d+\.\d+){5}")
FAILURE = re.compile(r"^stress-ng: fail: +(?:\[\d+\] *)?(.*)$", re.MULTILINE)
# core-metrics-check.c: the counters of a stressor that did not end by itself.
COUNTERS = re.compile(r"corrupted bogo-ops counter|hash error in bogo-ops|metrics-check:")
# A system call that failed is about memory, permissions or files: the text has its number.
SYSTEM_CALL = re.compile(r"\berrno[= ]\d+")
# `completed in 301.02s (5 mins, 1.02 secs)`; newer versions: `completed in 5 mins, 1.02 secs`.
COMPLETED = re.compile(r"run completed in (.{1,80})")
DURATION = re.compile(r"([\d.]{1,12}) ?(day|hour|min|s)")
UNIT_SECONDS = {"day": 86_400.0, "hour": 3600.0, "min": 60.0, "s": 1.0}
# A run ends at most this share of its time early, by the steps of its timer.
MIN_TIME_SHARE = 0.9
PREMATURE = re.compile(r"finished prematurely after just ([\d.]+)s")


def read_stress_ng(stress: Raw) -> dict[str, Reading]:
    """Return the stressors that failed their own verification; nothing applies where none was requested."""
    if stress.get("ran") is not True:
        return {"stress_ng_failures": NOT_APPLICABLE}
    code, text = to_finite_number(stress.get("code")), str(stress.get("text"))
    if code == STRESS_NG_FAILED and has_wrong_answer(stress, text):
        return {"stress_ng_failures": 1.0}
    operations = [float(count) for _, count in STRESS_NG_ROW.findall(text)]
    if reason := explain_interruption(stress, code, text):
        return {"stress_ng_failures": reason}
    if not operations or min(operations) == 0:
        return {"stress_ng_failures": "stress-ng reported no verified operation"}
    return {"stress_ng_failures": 0.0, "stress_ng_operations": min(operations)}


def has_wrong_answer(stress: Raw, text: str) -> bool:
    """Return whether a stressor's own verification failed, not its counters or a system call.

    Records of agents before 2026-11-28 kept only the end of the text: without any line there, the code decides.
    """
    listed = "\n".join(str(line) for line in list_or_empty(stress.get("failures")))
    lines = FAILURE.findall(f"{listed}\n{text}")
    if not lines and "failures" not in stress:
        return True
    return any(not COUNTERS.search(line) and not SYSTEM_CALL.search(line) for line in lines)


def explain_interruption(stress: Raw, code: float | None, text: str) -> str:
    """Return why a run verified nothing to its end, or nothing."""
    signals = [str(number) for number in list_or_empty(stress.get("child_signals"))]
    oom_kills = to_finite_number(stress.get("oom_kills")) or 0.0
    if oom_kills > 0:
        return f"the kernel killed processes for want of memory while stress-ng ran ({oom_kills:g})"
    if signals:
        return f"a worker of stress-ng was killed (signal {', '.join(signals)[:40]})"
    if code == STRESS_NG_FAILED and COUNTERS.search(text):
        return "a worker of stress-ng was killed: its counter is not complete"
    if code != 0:
        return f"stress-ng exited with code {stress.get('code')}: {text.strip()[-120:]}"
    if match := PREMATURE.search(text):
        return f"stress-ng was stopped after {match[1][:10]} s"
    ran, requested = read_run_seconds(text), to_finite_number(stress.get("seconds"))
    if ran is not None and requested is not None and ran < requested * MIN_TIME_SHARE:
        return f"stress-ng was stopped after {ran:g} of {requested:g} s"
    return ""


def read_run_seconds(text: str) -> float | None:
    """Return how long a run took, as its last line says; None without it."""
    match = COMPLETED.search(text)
    parts = DURATION.findall(match[1].split("(")[0]) if match else []
    try:
        return sum(float(number) * UNIT_SECONDS[unit] for number, unit in parts) if parts else None
    except ValueError:
        return None

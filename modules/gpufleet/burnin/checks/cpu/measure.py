"""CPU: every core works on problems with known answers; a wrong answer is silent corruption."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

from ...agent.host import HostAccess, RawCheckResult, build_error_result
from ...agent.load_series import record_load_series
from ...agent.stress_ng import run_stress_ng
from ...agent.workers import run_jobs_in_parallel

BLOCK = bytes(range(256)) * 4096
# Known answers. Only operations that IEEE 754 or arithmetic define exactly, so that every CPU agrees:
# SHA-256 of BLOCK; 3^(2^4096) mod (2^521 - 1); 20,000 steps of x -> 3.99 x (1 - x), which is chaotic, so
# that one wrong bit grows until it shows.
EXPECTED_DIGEST = "fbbab289f7f94b25736c58be46a994c441fd02552cc6022352e3d86d2fab7c83"
EXPECTED_POWER = "8e7398d2337df7eef3a2a7bd8f16a170acd007836b77c7dde39c89173e2aa814"
EXPECTED_ORBIT = "0x1.b836303cec742p-2"
STEPS = 20_000


def hash_test_block() -> str:
    """Hash the known block."""
    return hashlib.sha256(BLOCK).hexdigest()


def hash_modular_power() -> str:
    """Raise to a large power modulo a Mersenne prime: long integer multiplication."""
    return hashlib.sha256(str(pow(3, 1 << 4096, (1 << 521) - 1)).encode()).hexdigest()


def compute_logistic_orbit() -> str:
    """Follow the logistic map in double precision."""
    x = 0.5 + 1 / 1024
    for _ in range(STEPS):
        x = 3.99 * x * (1.0 - x)
    return x.hex()


def solve_known_problems(seconds: float) -> dict[str, Any]:
    """Solve all three problems again and again for a time; count rounds and wrong answers."""
    rounds = wrong_answers = 0
    hashing = 0.0
    started = time.monotonic()
    while rounds == 0 or time.monotonic() - started < seconds:
        before = time.perf_counter()
        digest = hash_test_block()
        hashing += time.perf_counter() - before
        wrong_answers += (
            (digest != EXPECTED_DIGEST)
            + (hash_modular_power() != EXPECTED_POWER)
            + (compute_logistic_orbit() != EXPECTED_ORBIT)
        )
        rounds += 1
    return {
        "rounds": rounds,
        "wrong": wrong_answers,
        "hash_seconds": hashing,
        "seconds": time.monotonic() - started,
    }


def measure_host(host: HostAccess) -> RawCheckResult:
    """Work on every core this process may use."""
    seconds = host.get_parameter("cpu_seconds", 20.0)
    cores = len(os.sched_getaffinity(0))

    def work(index: int) -> dict[str, Any]:
        # One process more than cores: it samples sensors while the others work.
        return record_load_series(host, seconds) if index == cores else solve_known_problems(seconds)

    *results, series = run_jobs_in_parallel(work, cores + 1, seconds * 3 + 30)
    errors = [answer["error"] for answer in results if "error" in answer]
    workers = [answer["value"] for answer in results if "value" in answer]
    raw = {
        "cores_online": os.cpu_count(),
        "cores_usable": cores,
        "cores_present": host.read_text_file("/sys/devices/system/cpu/present"),
        "expect_cores": host.get_parameter("expect_cores", 0),
        "rounds": sum(worker["rounds"] for worker in workers),
        "wrong": sum(worker["wrong"] for worker in workers),
        "workers_lost": errors,
        "under_load": series.get("value") or {"error": series.get("error")},
        "stress_ng": run_stress_ng(host, "--cpu", "0"),
    }
    if not workers:
        return build_error_result(f"no worker finished: {errors[0]}", **raw)
    rate = sum(worker["rounds"] * len(BLOCK) / worker["hash_seconds"] for worker in workers) / 1e6
    raw["rounds_per_s"] = round(sum(worker["rounds"] / worker["seconds"] for worker in workers), 3)
    raw["hash_mb_per_s"] = round(rate, 1)
    return RawCheckResult("ran", measured=raw["hash_mb_per_s"], unit="MB/s", raw=raw)

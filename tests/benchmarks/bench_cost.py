"""How long `gpufleet cost diff` takes, the command as typed: no engine, no network. Prints, judges nothing.

    python tests/benchmarks/bench_cost.py [STACK] [RUNS]

Budget on two idle cores: production against HEAD within 3 s. The work is one process importing three
provider SDKs, so CPU seconds are printed beside wall seconds: a busy machine moves the second, not the first.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "gpufleet", "cost", "diff", "--base", "HEAD", "--format", "json", "-s"]


def time_once(stack):
    """Run the command once, and return its wall and CPU seconds."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, stack], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.perf_counter() - started, cpu


def main():
    stack = sys.argv[1] if len(sys.argv) > 1 else "production"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    time_once(stack)  # the first run may compile the SDKs' bytecode
    wall, cpu = zip(*(time_once(stack) for _ in range(runs)), strict=True)
    print(f"gpufleet cost diff -s {stack} --base HEAD, {runs} runs on {os.cpu_count()} cores")
    print(
        f"  wall  median {statistics.median(wall):.2f} s   best {min(wall):.2f} s   worst {max(wall):.2f} s"
    )
    print(f"  cpu   median {statistics.median(cpu):.2f} s")
    print(f"  load average of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

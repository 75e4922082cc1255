"""Time of `gpufleet size` over all hardware as a complete process. Prints, asserts nothing.

    python tests/benchmarks/bench_size.py [RUNS]

Budget on two idle cores: 0.3 s each, `--json` included. A busy machine moves wall seconds, so CPU seconds and what
an empty Python process and `import click` take on it at the same time are printed too.
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
SIZE = [sys.executable, "-m", "gpufleet", "size", "--model"]
QUESTIONS = {
    "an empty process": [sys.executable, "-c", "pass"],
    "import click": [sys.executable, "-c", "import click"],
    "inference, table": [*SIZE, "llama-3.1-8b"],
    "inference, --json": [*SIZE, "llama-3.1-8b", "--json"],
    "inference, --top 0 --json": [*SIZE, "llama-3.1-8b", "--top", "0", "--json"],
    "70B, 20 requests/s, --json": [
        *SIZE, "llama-3.1-70b", "--requests-per-s", "20", "--context", "800/200", "--tpot-ms", "200", "--json",
    ],
    "LoRA of 7B, --json": [*SIZE, "qwen2.5-7b", "--task", "lora", "--dataset", "10000", "--epochs", "3", "--json"],
    "70B from scratch by a day, --json": [
        *SIZE, "llama-3.1-70b", "--task", "pretrain", "--tokens", "1T", "--deadline", "60d", "--json",
    ],
    "one machine, --json": [*SIZE, "llama-3.1-8b", "--on", "p4d.24xlarge", "--devices", "8", "--json"],
}  # fmt: skip


def run_once(command):
    """Run the command once, and return its wall and CPU seconds."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"gpufleet size as a whole process, {runs} runs each, load average {os.getloadavg()[0]:.1f}")
    for name, command in QUESTIONS.items():
        run_once(command)
        wall, cpu = zip(*(run_once(command) for _ in range(runs)), strict=True)
        print(
            f"  {name:34} wall median {statistics.median(wall):.2f} s, best {min(wall):.2f} s; cpu {min(cpu):.2f} s"
        )


if __name__ == "__main__":
    main()

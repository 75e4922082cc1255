"""Time of `gpufleet size` over all hardware as a complete process. Prints, asserts nothing.

    python tests/benchmarks/bench_size.py [RUNS] [CHECKOUT]

Processor seconds, and their ratio to `import click, pydantic` in the same run, because a busy machine moves seconds.
With another checkout (`git worktree add /tmp/before COMMIT`) each question is asked of both in turn, and the last
column is how many times faster this one is. Bytecode is written before the first measurement.
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
SIZE = ["-m", "gpufleet", "size", "--model"]
REFERENCE = "import click, pydantic"
QUESTIONS = {
    "an empty process": ["-c", "pass"],
    REFERENCE: ["-c", REFERENCE],
    "inference, table": [*SIZE, "llama-3.1-8b"],
    "inference, --json": [*SIZE, "llama-3.1-8b", "--json"],
    "inference, --top 0 --json": [*SIZE, "llama-3.1-8b", "--top", "0", "--json"],
    "70B, 20 requests/s, --json": [
        *SIZE, "llama-3.1-70b", "--requests-per-s", "20", "--context", "800/200", "--tpot-ms", "200", "--json",
    ],
    "LoRA of 7B, --json": [*SIZE, "qwen2.5-7b", "--task", "lora", "--dataset", "10000", "--epochs", "3", "--json"],
    "full fine-tuning of 8B, --json": [
        *SIZE, "llama-3.1-8b", "--task", "full_finetune", "--tokens", "1B", "--json",
    ],
    "70B from scratch by a day, --json": [
        *SIZE, "llama-3.1-70b", "--task", "pretrain", "--tokens", "1T", "--deadline", "60d", "--json",
    ],
    "one machine, --json": [*SIZE, "llama-3.1-8b", "--on", "p4d.24xlarge", "--devices", "8", "--json"],
}  # fmt: skip


def run_once(arguments, checkout):
    """Run the command of that checkout once, and return its wall and CPU seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(checkout / "modules")
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    checkouts = [ROOT, *(Path(name).resolve() for name in sys.argv[2:3])]
    times = {(name, checkout): [] for name in QUESTIONS for checkout in checkouts}
    for turn in range(runs + 1):
        for (name, checkout), measured in times.items():
            seconds = run_once(QUESTIONS[name], checkout)
            if turn:  # the first one writes bytecode
                measured.append(seconds)
    reference = statistics.median(cpu for _, cpu in times[REFERENCE, ROOT])
    print(f"gpufleet size as a whole process, {runs} runs each, load average {os.getloadavg()[0]:.1f}")
    print(
        f"  {'':34}{'wall':>8}{'cpu':>8}{'ratio':>7}"
        + (f"{'before':>9}{'faster':>8}" if sys.argv[2:] else "")
    )
    for name in QUESTIONS:
        wall, cpu = (statistics.median(each) for each in zip(*times[name, ROOT], strict=True))
        line = f"  {name:34}{wall:7.3f}s{cpu:7.3f}s{cpu / reference:7.2f}"
        for other in checkouts[1:]:
            before = statistics.median(seconds for _, seconds in times[name, other])
            line += f"{before:8.3f}s{before / cpu:8.2f}"
        print(line)


if __name__ == "__main__":
    main()

"""How long `gpufleet cost diff --preview` takes for 5,000 resources, and how much memory. Prints, judges nothing.

    python tests/benchmarks/bench_cost_large.py [COUNT] [RUNS]

Budget on an idle core: 5,000 resources within 1 s and 100 MB. CPU seconds are printed beside wall seconds, because a
busy machine moves the second, not the first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from programs.large import build_large_preview


def measure(path: Path) -> tuple[float, float, float]:
    """Run the command once; return its wall seconds, CPU seconds and largest memory in MB."""
    command = [sys.executable, "-m", "gpufleet", "cost", "diff", "--preview", str(path), "--format", "json"]
    variables = {**os.environ, "GPUFLEET_PRICES": "embedded"}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=path.parent, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: the programs have changes of unknown cost
        raise SystemExit(f"{command} ended with {process.returncode}")
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / unit


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "preview.json"
        path.write_text(json.dumps(build_large_preview(count)))
        measure(path)  # the first run may compile bytecode
        wall, cpu, memory = zip(*(measure(path) for _ in range(runs)), strict=True)
    print(f"gpufleet cost diff --preview, {count} resources, {runs} runs on {os.cpu_count()} cores")
    print(
        f"  wall    median {statistics.median(wall):.2f} s   best {min(wall):.2f} s   worst {max(wall):.2f} s"
    )
    print(f"  cpu     median {statistics.median(cpu):.2f} s   best {min(cpu):.2f} s")
    print(f"  memory  {max(memory):.0f} MB")
    print(f"  load average of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

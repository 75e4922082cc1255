"""Measure the burn-in agent: time to its first record and result, memory, also while a tool prints 2 GB.

python tests/benchmarks/bench_agent.py [--repeat N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from gpufleet import burnin

FLOOD_BYTES = 2_000_000_000


def run_agent(agent, environment):
    """Run one check that only reads; return the seconds to the start record, to the result and to the end."""
    argv = [sys.executable, str(agent), "run", "--attempt", "bench", "--only", "pi_throttled"]
    started = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
    times = {}
    for line in process.stdout:
        times.setdefault(line.split(b'"', 4)[3].decode(), time.perf_counter() - started)
    process.wait()
    return [times["start"], times["check"], time.perf_counter() - started]


def read_peaks(root_pid, peaks, stop):
    """Note the largest resident size of each process of the agent, by the kernel's own high-water marks."""
    while not stop.is_set():
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if b"agent.pyz" in (folder / "cmdline").read_bytes():
                    status = (folder / "status").read_text()
                    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                    peaks[folder.name] = max(peaks.get(folder.name, 0), int(peak.split()[1]))
            except (OSError, StopIteration):
                continue
        time.sleep(0.01)
    peaks.pop(str(root_pid), None)


def measure_memory(agent, environment):
    """Return the largest resident size of one process of the agent, in MiB."""
    argv = [sys.executable, str(agent), "run", "--attempt", "bench", "--only", "pi_throttled"]
    peaks, stop = {}, threading.Event()
    watcher = threading.Thread(target=read_peaks, args=(os.getpid(), peaks, stop))
    watcher.start()
    subprocess.run(argv, stdout=subprocess.DEVNULL, env=environment, check=True)
    stop.set()
    watcher.join()
    return max(peaks.values()) / 1024


def main():
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = burnin.build_agent_zipapp(folder / "agent.pyz")
        tool = folder / "vcgencmd"
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        tool.write_text("#!/bin/sh\necho throttled=0x0\n")
        tool.chmod(0o755)
        rows = [run_agent(agent, environment) for _ in range(repeat)]
        for what, values in zip(
            ("start record", "first result", "end"), zip(*rows, strict=True), strict=True
        ):
            print(
                f"{what}: median {statistics.median(values):.3f} s, fastest {min(values):.3f} s, {repeat} runs"
            )
        print(f"largest process: {measure_memory(agent, environment):.1f} MiB")
        tool.write_text(f"#!/bin/sh\nyes | head -c {FLOOD_BYTES}\n")
        started = time.perf_counter()
        peak = measure_memory(agent, environment)
        print(f"largest process, a tool prints 2 GB: {peak:.1f} MiB, {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()

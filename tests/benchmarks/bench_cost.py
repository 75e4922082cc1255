"""How long `gpufleet cost diff` takes, the command as typed: no engine, no network. Prints, judges nothing.

    python tests/benchmarks/bench_cost.py [STACK] [RUNS]

Budget on an idle core: production by git ref within 1.5 s. Each round runs the command in a clone four times: without
the cache, with an empty one, with the base kept and a changed stack file, and with both sides kept. CPU seconds are
printed next to wall seconds, and the ratio to the first run of the same round: a busy machine moves the ratio least.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "gpufleet", "cost", "diff", "--base", "HEAD", "--format", "json", "-s"]
STEPS = ("cache off", "nothing kept", "base kept", "both kept")


def time_once(root, stack, variables):
    """Run the command once, and return its wall and CPU seconds."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | variables
    subprocess.run([*COMMAND, stack], cwd=root, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.perf_counter() - started, cpu


def time_round(root, stack, cache):
    """Time the four steps; the third one has a change that is not committed."""
    file = root / "stacks" / f"Pulumi.{stack}.yaml"
    text, kept = file.read_text(), {"XDG_CACHE_HOME": str(cache)}
    first = [time_once(root, stack, {"GPUFLEET_PROGRAM_CACHE": "off"}), time_once(root, stack, kept)]
    file.write_text(f"{text}\n# changed\n")
    changed = time_once(root, stack, kept)
    file.write_text(text)
    return [*first, changed, time_once(root, stack, kept)]


def main():
    stack = sys.argv[1] if len(sys.argv) > 1 else "production"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(clone)], check=True)
        # A program of this project imports the package, whose bytecode is in a checkout that is in use.
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", str(clone / "modules" / "gpufleet")], check=True
        )
        time_round(clone, stack, Path(folder) / "cache")  # the first run may compile the SDKs' bytecode
        rounds = [time_round(clone, stack, Path(folder) / f"cache{number}") for number in range(runs)]
    print(f"gpufleet cost diff -s {stack} --base HEAD, {runs} rounds on {os.cpu_count()} cores")
    for index, step in enumerate(STEPS):
        wall, cpu = zip(*(times[index] for times in rounds), strict=True)
        ratio = statistics.median(times[index][1] / times[0][1] for times in rounds)
        print(
            f"  {step:13} wall median {statistics.median(wall):5.2f} s   cpu median {statistics.median(cpu):5.2f} s   "
            f"best {min(cpu):5.2f} s   {ratio:4.0%} of the cpu without the cache"
        )
    print(f"  load average of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

"""How long `pulumi preview` takes for 10, 100 and 1,000 nodes, and how much memory. Prints, judges nothing.

    python tests/benchmarks/bench_nodes.py [RUNS]

One AWS pool as a group of the cloud's, in a rehearsal: the real engine, the project's program and a simulated
cloud. Next to it 1,000 nodes as one resource each, which the rule many-nodes-need-group refuses: for that one the
program lifts the rule's limit. The time is the whole command's, the memory that of all its processes together.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpufleet.rehearsal import Rehearsal

ROOT = Path(__file__).resolve().parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn bench"
STACK = "bench"
GOAL = 3.0  # at least so many times faster than one resource per node
LIFT_THE_LIMIT = "from gpufleet.fleet import rules_placement\nrules_placement.MAX_SINGLE_NODES = 1000\n"
SAMPLE_SECONDS = 0.05


def write_project(folder):
    """Write a project with the shipped program next to this Python environment."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "stacks/__main__.py").write_text((ROOT / "stacks/__main__.py").read_text())


def write_stack(folder, nodes, *, is_group):
    pool = {
        "name": "train", "cloud": "aws", "region": "us-east-1", "zones": ["us-east-1a"], "machine": "g5.2xlarge",
        "count": nodes, "group": is_group, "purchase": {"kind": "on_demand"},
    }  # fmt: skip
    spec = {
        "owner": "bench",
        "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
        "pools": [pool],
    }
    settings = {"config": {"gpufleet:fleet": spec, "aws:region": "us-east-1"}}
    (folder / f"stacks/Pulumi.{STACK}.yaml").write_text(json.dumps(settings))
    program = (ROOT / "stacks/__main__.py").read_text()
    marker = "cloud.declare_stack()\n"
    (folder / "stacks/__main__.py").write_text(
        program if is_group else program.replace(marker, LIFT_THE_LIMIT + marker)
    )


def session_memory_mb(session):
    """Return the resident memory of every process of a session, in MB."""
    pages = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def preview(folder, environment):
    """Return seconds, CPU seconds, peak memory in MB and number of resources of one preview."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["pulumi", "preview", "-s", STACK, "--non-interactive", "--json"]
    started, peak = time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while process.poll() is None:
            peak = max(peak, session_memory_mb(process.pid))
            time.sleep(SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(text[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, peak, len(json.loads(text[text.index("{") :])["steps"])


def measure(folder, environment, nodes, runs, *, is_group):
    write_stack(folder, nodes, is_group=is_group)
    results = [preview(folder, environment) for _ in range(runs)]
    seconds, cpu, memory = (statistics.median(result[at] for result in results) for at in range(3))
    label = "group" if is_group else "one resource per node"
    print(
        f"  {nodes:5,d} nodes  {label:22s} {results[0][3]:5,d} resources  {seconds:6.2f} s  cpu {cpu:6.2f} s  "
        f"{memory:6.0f} MB   per node {seconds / nodes * 1000:7.1f} ms {memory / nodes:6.2f} MB",
        flush=True,
    )
    return seconds, cpu, memory


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(
        f"pulumi preview, {runs} runs each on {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder)
        write_stack(folder, 1, is_group=True)
        rehearsal = Rehearsal(folder, STACK)
        rehearsal.set_up(lambda _line: None)
        environment = rehearsal.build_full_environment()
        groups = {n: measure(folder, environment, n, runs, is_group=True) for n in (10, 100, 1000)}
        single = measure(folder, environment, 1000, runs, is_group=False)
        rehearsal.tear_down(lambda _line: None)
    for fewer, more in ((10, 100), (100, 1000)):
        time_ratio, _, memory_ratio = (groups[more][at] / groups[fewer][at] for at in range(3))
        print(
            f"  {fewer:,d} to {more:,d} nodes: {time_ratio:.2f} times the time, {memory_ratio:.2f} times the memory"
            " (linear growth would be 10)"
        )
    time_ratio, cpu_ratio, memory_ratio = (single[at] / groups[1000][at] for at in range(3))
    print(
        f"  at 1,000 nodes a group takes {time_ratio:.1f} times less time (goal {GOAL:.0f}), "
        f"{cpu_ratio:.1f} times less CPU, {memory_ratio:.1f} times less memory"
    )


if __name__ == "__main__":
    main()

"""Time to judge 20 nodes again from kept records, and to compare and report them. Prints, asserts nothing.

    python tests/benchmarks/bench_burnin.py [RUNS]

Budget on two idle cores: 1 s to read the records of 20 nodes from the registry and to judge them. A whole process also
starts Python and SQLAlchemy, as every command that uses the registry. Records are simulated (tests/simulated_nodes.py).
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from bench_size import run_once

from gpufleet import burnin
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import burnin as operations_burnin
from simulated_nodes import KINDS, simulate_healthy_node

NODES = 20
COMMANDS = {
    "rejudge": ["rejudge"],
    "rejudge --since": ["rejudge", "--since", "2020-01-01"],
    "report": ["report"],
    "compare": ["compare"],
}


def fill_registry(url, node_class):
    """Store one result of each of 20 nodes of a class."""
    generator = random.Random(1)
    with Registry(url) as registry:
        for slot in range(1, NODES + 1):
            name, place = f"node{slot:02}", NodeIdentity(rack="rack", slot=str(slot))
            kind, records = KINDS[node_class], simulate_healthy_node(node_class, generator)
            registry.apply_observation(NodeObservation("rack:rack", name, place, declared={"kind": kind}))
            attempt = registry.start_attempt(name, "burn_in")
            report = replace(burnin.judge_attempt(records, kind, "quick", node=name), attempt=attempt)
            registry.record_burn_in_result(name, attempt, report.as_json(), records, reason="benchmark")


def time_judging(node_class):
    """Return the seconds that the judge alone takes for 20 nodes."""
    generator = random.Random(1)
    nodes = [simulate_healthy_node(node_class, generator) for _ in range(NODES)]
    began = time.perf_counter()
    for records in nodes:
        burnin.judge_attempt(records, KINDS[node_class], "quick")
    return time.perf_counter() - began


def time_kept_records():
    """Return the seconds to read all kept records and judge them again."""
    began = time.perf_counter()
    operations_burnin.rejudge_results()
    return time.perf_counter() - began


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{NODES} nodes, {runs} runs each, load average {os.getloadavg()[0]:.1f}")
    for node_class in ("blade", "h100_vm", "h100_server"):
        time_judging(node_class)
        judging = [time_judging(node_class) for _ in range(runs)]
        print(f"  {node_class:12} {'the judge alone':18} median {statistics.median(judging):.3f} s")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GPUFLEET_DATABASE_URL"] = f"sqlite:///{folder}/registry.db"
            fill_registry(os.environ["GPUFLEET_DATABASE_URL"], node_class)
            kept = [time_kept_records() for _ in range(runs)]
            print(f"  {node_class:12} {'from the registry':18} median {statistics.median(kept):.3f} s")
            for name, arguments in COMMANDS.items():
                command = [sys.executable, "-m", "gpufleet", "burnin", *arguments]
                run_once(command)
                wall, cpu = zip(*(run_once(command) for _ in range(runs)), strict=True)
                print(
                    f"  {node_class:12} {name:18} wall median {statistics.median(wall):.2f} s, best {min(wall):.2f} s;"
                    f" cpu {min(cpu):.2f} s"
                )


if __name__ == "__main__":
    main()

"""Count the tests of the plan of groups on simulated clusters (docs/burn-in-network.md).

Run with ``python tests/benchmarks/bench_isolation.py [SEEDS]``. The clusters and their noise are those of
tests/simulated_cluster.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from simulated_cluster import SimulatedCluster

RACKS = {40: 10, 100: 10, 232: 18, 1000: 32}
BAD = (0, 1, 5)


def run_once(count: int, bad: int, seed: int) -> tuple[int, int, bool, bool, bool]:
    """Return tests, rounds, and whether all bad nodes were found, any other was named, and the bad link was found."""
    cluster = SimulatedCluster(count, seed, bad=bad, bad_link=True, per_rack=RACKS[count])
    report = cluster.isolate()
    named = {name for found in report.nodes for name in found.names}
    links = {frozenset(found.names) for found in report.links}
    return (
        cluster.tests,
        cluster.rounds,
        set(cluster.bad) <= named,
        bool(named - set(cluster.bad)) or bool(report.pairs) or bool(links - {cluster.bad_link}),
        cluster.bad_link in links,
    )


def list_rows(seeds: int) -> Iterator[str]:
    """Give the lines of a table."""
    yield "| nodes | pairs | bad nodes | tests, median (most) | steps | all nodes found | link found | wrongly named |"
    yield "|---|---|---|---|---|---|---|---|"
    with ProcessPoolExecutor() as many:
        for count in RACKS:
            for bad in BAD:
                runs = list(many.map(run_once, [count] * seeds, [bad] * seeds, range(seeds)))
                tests, steps, found, wrong, link = zip(*runs, strict=True)
                yield (
                    f"| {count:,} | {count * (count - 1) // 2:,} | {bad} | {median(tests):g} ({max(tests)}) |"
                    f" {median(steps):g} | {sum(found)} of {seeds} | {sum(link)} of {seeds} | {sum(wrong)} |"
                )


if __name__ == "__main__":
    for row in list_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        print(row, flush=True)

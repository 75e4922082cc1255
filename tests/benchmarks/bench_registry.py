"""How long a registry of many nodes takes: a first report, a second, a list, Ansible's model. Prints, judges nothing.

    python tests/benchmarks/bench_registry.py [NODES]

Budget on two cores: 10,000 nodes merged within 3 s and 300 MB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from datetime import UTC, datetime

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.nodes.inventory import assemble_ansible_inventory

BLADES = 20


def report(count, at):
    """Return a Pulumi-like report of ``count`` nodes, with about a dozen values each."""
    seen = [
        NodeObservation(
            "pulumi:bench",
            f"node-{i:05}",
            NodeIdentity(instance_id=f"i-{i:017x}"),
            declared={
                "kind": "cloud_vm", "cloud": "aws", "region": "us-east-1", "pool": f"pool-{i % 40}",
                "machine": "g5.2xlarge", "template": "trainer", "usd_per_hour": 1.212, "stack": "bench",
            },
            observed={"address": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", "zone": "us-east-1a"},
            observed_at=at,
        )
        for i in range(count)
    ]  # fmt: skip
    return SourceReport("pulumi:bench", at, seen)


def measure_seconds(name, work):
    """Do the work and print what it took."""
    started = time.perf_counter()
    result = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<28}{time.perf_counter() - started:6.2f} s   peak so far {peak:6.0f} MiB")
    return result


def main():
    """Measure on a fresh SQLite registry."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder, Registry(f"sqlite:///{folder}/registry.db") as registry:
        print(f"{count} nodes")
        measure_seconds(
            "first report", lambda: registry.apply_source_report(report(count, datetime.now(UTC)))
        )
        measure_seconds(
            "second report, merged", lambda: registry.apply_source_report(report(count, datetime.now(UTC)))
        )
        nodes = measure_seconds("list", registry.list_nodes)
        measure_seconds("inventory model", lambda: assemble_ansible_inventory(nodes, []))


if __name__ == "__main__":
    main()

"""Each part of gpufleet.fleet.resources against the modules that users of Ansible know, with nothing to change.

    python tests/benchmarks/bench_parts.py [--blades 6] [--repeats 5] [--collections FOLDER]

All ways run on the same hosts, in turn, with the settings of experts (20 forks, pipelining, no fact gathering). A play
has its tasks several times, and a play with them once is subtracted. The seconds are those of one host and one pass. A
way that needs ansible.posix is left out where that collection is not installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import bench_site
import yaml

from gpufleet.rehearsal.rack.requirements import find_missing_requirement

PARTS = yaml.safe_load((Path(__file__).parent / "stock/parts.yml").read_text(encoding="utf-8"))


class PartsBench(bench_site.Bench):
    """Hosts on which single parts run."""

    collections = ""

    def command(self, way: str) -> tuple[list[str], Path]:
        """Return the command line that runs the play of this name."""
        folder = self.home.parent
        program = str(bench_site.PROGRAMS / "ansible-playbook")
        return [program, str(folder / f"{way}.yml"), "-i", str(folder / "hosts.json")], folder

    def environment(self, way: str) -> dict[str, str]:
        """Return the environment of the tuned way; the collections may be in a folder of their own."""
        env = super().environment("tuned")
        return env | ({"ANSIBLE_COLLECTIONS_PATH": self.collections} if self.collections else {})

    def write_play(self, name: str, tasks: list[dict[str, object]]) -> None:
        """Write a play of these tasks."""
        play = {"hosts": "all", "vars": {"key": bench_site.KEY}, "tasks": tasks}
        (self.home.parent / f"{name}.yml").write_text(yaml.safe_dump([play], sort_keys=False, width=10_000))

    def measure(self, tasks: list[dict[str, object]], repeats: int) -> bench_site.Sample:
        """Return what one pass of the tasks costs on one host."""
        self.write_play("once", tasks)
        self.write_play("repeated", tasks * (repeats + 1))
        self.play("once", quiet=False)
        once, repeated = self.play("once", quiet=True), self.play("repeated", quiet=True)
        passes = repeats * self.count
        return bench_site.Sample(
            (repeated.wall - once.wall) / passes,
            (repeated.controller_cpu - once.controller_cpu) / passes,
            (repeated.hosts_cpu - once.hosts_cpu) / passes,
        )


def main() -> None:
    """Measure all parts and print the table."""
    parser = argparse.ArgumentParser(description="Measure each part of gpufleet.fleet.resources.")
    parser.add_argument("--blades", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--collections", default="", help="folder with ansible_collections/ansible/posix")
    options = parser.parse_args()
    if reason := find_missing_requirement():
        print(f"left out: {reason}")
        return
    places = [Path(options.collections), *map(Path, sys.path)] if options.collections else map(Path, sys.path)
    has_posix = any((place / "ansible_collections/ansible/posix").is_dir() for place in places)
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        bench = PartsBench(Path(folder) / "home", options.blades)
        bench.collections = options.collections
        bench.home.mkdir()
        bench.make_project()
        with bench.hosts() as addresses:
            bench_site.write_stock_inventory(bench, addresses)
            print(f"{options.blades} blades, {os.cpu_count()} cores; one host, one pass, nothing to change")
            print(f"{'':<36}{'way':<20}{'wall':>9}{'controller CPU':>17}{'host CPU':>11}")
            for part, ways in PARTS.items():
                for way, tasks in ways.items():
                    if "posix" in way and not has_posix:
                        print(f"{part:<36}{way:<20}   ansible.posix is not installed")
                        continue
                    cost = bench.measure(tasks, options.repeats)
                    print(
                        f"{part:<36}{way:<20}{cost.wall:>7.3f} s{cost.controller_cpu:>15.3f} s"
                        f"{cost.hosts_cpu:>9.3f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

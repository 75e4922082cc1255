"""Processor time of `nodes targets`, `nodes drivers` and others on a large fleet, next to another commit's build.

    python tests/benchmarks/bench_listing.py REF [NODES] [ROUNDS]

Both builds work on one registry and one project, in turn, each in a process of its own; Python's start is included.
Prints, judges nothing. Budget with 10,000 nodes against 9377bfb0: `targets` takes at most a thirtieth of the time, no
other command 5 % more.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench_sync import project

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport

ROOT = Path(__file__).resolve().parents[2]
RACK_NODES = 20
SLOW = ("targets", "drivers")
DRIVERS = {
    "installed": "580.95.05",
    "loaded": "580.95.05",
    "user_space": "580.95.05",
    "held": ["nvidia-open"],
}
EXPORTERS = {"exporters": [{"name": "node", "port": 9100, "scheme": "http"}]}


def fill(url: str, count: int) -> None:
    """Register the nodes of racks, each rack a source of its own, that reported drivers and exporters."""
    at, reports = datetime.now(UTC), []
    declared = {"kind": "gpu_server", "machine": "8x H100", "template": "train"}
    for rack in range(0, count, RACK_NODES):
        seen = []
        for i in range(rack, min(rack + RACK_NODES, count)):
            place = NodeIdentity(rack=f"rack-{rack:05}", slot=str(i - rack + 1))
            observed = {"address": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", "arch": "x86_64"}
            observed |= {"drivers": DRIVERS, "configuration_monitoring": EXPORTERS}
            source = f"rack:rack-{rack:05}"
            seen.append(
                NodeObservation(
                    source, f"n{i:05}", place, declared=declared, observed=observed, observed_at=at
                )
            )
        reports.append(SourceReport(source, at, seen))
    with Registry(url) as registry:
        registry.apply_source_reports(reports)


def unpack(ref: str, folder: Path) -> Path:
    """Return the package's folder of a commit."""
    archive = subprocess.run(["git", "archive", ref, "modules"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as members:
        members.extractall(folder, filter="data")
    return folder / "modules"


def measure(modules: Path, arguments: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """Return the processor seconds of one command of one build."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "gpufleet", *arguments]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment | {"PYTHONPATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure both builds in turn, so that both see the same machine."""
    ref = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "project").mkdir()
        project(folder / "project", max(1, count // RACK_NODES), RACK_NODES)
        builds = {ref: unpack(ref, folder / "before"), "this build": ROOT / "modules"}
        url = f"sqlite:///{folder}/listed/registry.db"
        fill(url, count)
        took: dict[tuple[str, str], list[float]] = {}
        for modules in builds.values():  # compiles its modules
            measure(
                modules, ["nodes", "list"], folder / "project", {**os.environ, "GPUFLEET_DATABASE_URL": url}
            )
        for number in range(rounds):
            for command in (*SLOW, "list", "first sync", "sync"):
                if command in SLOW and number > 0:
                    continue  # minutes each before
                for name, modules in builds.items():
                    environment = {**os.environ, "GPUFLEET_DATABASE_URL": url}
                    arguments = ["nodes", command]
                    if "sync" in command:
                        synced = folder / f"synced-{list(builds).index(name)}"
                        if command == "first sync":
                            shutil.rmtree(synced, ignore_errors=True)
                        environment["GPUFLEET_DATABASE_URL"] = f"sqlite:///{synced}/registry.db"
                        arguments = ["nodes", "sync", "-s", "bench"]
                    seconds = measure(modules, arguments, folder / "project", environment)
                    took.setdefault((command, name), []).append(seconds)
    print(f"{count} nodes, processor seconds, best of {rounds} ({', '.join(SLOW)}: one run)")
    for command in dict.fromkeys(command for command, _ in took):
        before, now = (min(took[command, name]) for name in builds)
        print(f"{command:<12}{ref} {before:8.2f}   this build {now:8.2f}   {before / now:6.2f} times as fast")


if __name__ == "__main__":
    main()

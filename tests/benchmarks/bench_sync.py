"""How long ``nodes sync`` of a large fleet takes, first and unchanged, on both databases. Prints, judges nothing.

    python tests/benchmarks/bench_sync.py [RACKS] [NODES IN EACH] [POSTGRESQL URL]

PostgreSQL is measured where a URL of an empty database is given, or where its server programs are installed.
Budget on an idle core: 10,000 nodes in 500 rack files within 8 s first and 3 s unchanged, the whole process included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STACK = """\
config:
  gpufleet:fleet:
    owner: bench
    templates:
      blade: {burn_in: quick}
    racks:
"""
RACK = """\
plugin: gpufleet.fleet.rack
name: rack-{n:03}
kind: blades
site: lab
machine: Compute Blade CM4 8GB
nodes: r{n:03}-blade[01-{size:02}]
network: {{cidr: 10.{high}.{low}.0/24}}
"""


def project(folder: Path, racks: int, size: int) -> None:
    """Write a project of ``racks`` rack files with ``size`` nodes each, all of them in the stack ``bench``."""
    for name in ("stacks", "inventory"):
        (folder / name).mkdir()
    (folder / "Pulumi.yaml").write_text("name: bench\nruntime: python\nmain: stacks/\n")
    used = "".join(f"      - {{name: rack-{n:03}, template: blade}}\n" for n in range(racks))
    (folder / "stacks/Pulumi.bench.yaml").write_text(STACK + used)
    for n in range(racks):
        text = RACK.format(n=n, size=size, high=n >> 8, low=n & 255)
        (folder / f"inventory/rack-{n:03}.yaml").write_text(text)


@contextmanager
def postgresql() -> Iterator[str | None]:
    """Give the URL of a server of our own, None where its programs are missing."""
    search = os.pathsep.join([os.environ["PATH"], "/usr/lib/postgresql/15/bin"])
    initdb, control = (shutil.which(name, path=search) for name in ("initdb", "pg_ctl"))
    if not (initdb and control):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="gpufleet-bench-pg-"))
    user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = [str(shutil.which("setpriv")), "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        shutil.chown(folder, "nobody", "nogroup")
    data, quiet = str(folder / "data"), subprocess.DEVNULL
    subprocess.run(
        [*user, initdb, "-D", data, "-U", "bench", "-A", "trust"], check=True, cwd=folder, stdout=quiet
    )
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    start = [*user, control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start"]
    subprocess.run(start, check=True, cwd=folder, stdout=quiet)
    try:
        yield f"postgresql+psycopg://bench@/postgres?host={folder}"
    finally:
        subprocess.run(
            [*user, control, "-D", data, "-m", "fast", "stop"], check=True, cwd=folder, stdout=quiet
        )
        shutil.rmtree(folder)


def measure(name: str, folder: Path, url: str) -> None:
    """Print what a first and an unchanged sync take, as a person starts them."""
    program = str(Path(sys.executable).with_name("gpufleet"))
    environment = os.environ | {"GPUFLEET_DATABASE_URL": url}
    for turn in ("first", "unchanged"):
        before, started = os.times(), time.perf_counter()
        result = subprocess.run(
            [program, "nodes", "sync", "-s", "bench"],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall, after = time.perf_counter() - started, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        if result.returncode:
            sys.exit(result.stderr)
        nodes = sum(int(line.partition(": ")[2].split()[0]) for line in result.stdout.splitlines())
        print(f"{name:<12}{turn:<11}{nodes:>7} nodes {wall:6.2f} s wall {cpu:6.2f} s processor")


def main() -> None:
    """Measure on each database."""
    racks, size = (int(argument) for argument in (sys.argv[1:3] + ["500", "20"][len(sys.argv[1:3]) :]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder, racks, size)
        measure("SQLite", folder, f"sqlite:///{folder}/registry.db")
        if len(sys.argv) > 3:
            measure("PostgreSQL", folder, sys.argv[3])
            return
        with postgresql() as url:
            if url is None:
                print("PostgreSQL: its server programs are not installed")
            else:
                measure("PostgreSQL", folder, url)


if __name__ == "__main__":
    main()

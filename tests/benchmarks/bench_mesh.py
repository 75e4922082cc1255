"""Forty rehearsed blades on a Receptor mesh: one node killed in the middle, resumed; times for 1, 2 and 3 nodes.

    python tests/benchmarks/bench_mesh.py [HOSTS]
    python tests/benchmarks/bench_mesh.py HOSTS --local

1. Fresh hosts are configured by a local run (site.yml without burn-in): the reference for state and registry.
2. The same hosts again, nothing to change: a local run, then meshes of 1, 2 and 3 nodes. These are the times.
3. Fresh hosts on a mesh of a controller and two nodes, shards of a quarter. One node is killed when a first host is
   done; the run is resumed on the other. The state of every host and the registry must be those of the local run.

With --local no host is booted: Ansible's local connection writes four files for each of so many names, and the times
show what the mesh itself costs.

Needs Linux and `receptor` on PATH; booted hosts need root. All nodes are on this machine, so they share its cores.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import stock_state
from bench_site import PROGRAMS, ROOT, Bench

from gpufleet import remote
from gpufleet.rehearsal.rack.requirements import find_missing_requirement
from receptor_mesh import ReceptorMesh, find_receptor

COMPARED_FIELDS = (
    "name",
    "state",
    "reachable",
    "verdict",
    "os",
    "os_version",
    "serial",
    "model",
    "rack",
    "slot",
)
WAIT_SECONDS = 600
MAX_RACK = 20  # slots of the shipped rack


class MeshBench(Bench):
    """A project whose rack declares so many blades."""

    def environment(self) -> dict[str, str]:
        """Return the environment of our own run."""
        return super().environment("ours")

    def configure_command(self, *options: str) -> list[str]:
        settings = str(self.home.parent / "settings.json")
        return [str(PROGRAMS / "gpufleet"), "configure", "-e", f"@{settings}", "--json", *options]

    def configure(self, *options: str) -> tuple[float, int, dict[str, object]]:
        """Run `gpufleet configure`; return seconds, exit code and result."""
        started = time.perf_counter()
        result = subprocess.run(
            self.configure_command(*options), cwd=self.project, env=self.environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if not result.stdout.startswith("{"):
            sys.exit(f"configure {' '.join(options)}: {result.stderr[-3000:]}")
        return time.perf_counter() - started, result.returncode, json.loads(result.stdout)

    def check_configured(self, *options: str) -> float:
        """Run `gpufleet configure`; every host must succeed."""
        seconds, code, result = self.configure(*options)
        hosts = result["hosts"]
        if code or {host["status"] for host in hosts} != {"ok"}:
            sys.exit(f"configure {' '.join(options)}: exit code {code}: {json.dumps(result)[:4000]}")
        print(f"  {' '.join(options)}: {len(hosts)} hosts, {seconds:.0f} s", flush=True)
        return seconds

    def read_states(self, addresses: Mapping[str, str]) -> dict[str, object]:
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(addresses, pool.map(self.look, addresses.values()), strict=True))

    def read_registry(self) -> list[dict[str, object]]:
        command = [str(PROGRAMS / "gpufleet"), "nodes", "list", "--json"]
        result = subprocess.run(
            command, cwd=self.project, env=self.environment(), capture_output=True, text=True, check=True
        )
        nodes = [node for node in json.loads(result.stdout) if node["rack"] == "blades-1"]
        return sorted(
            ({key: node.get(key) for key in COMPARED_FIELDS} for node in nodes),
            key=lambda node: str(node["name"]),
        )


LIMIT = ("--limit", "rack_blades_1", "--burn-in", "never")


def start_mesh(folder: Path, count: int) -> ReceptorMesh:
    """Start a mesh of a controller and so many nodes."""
    mesh = ReceptorMesh(folder, tuple(f"mesh-{number}" for number in range(1, count + 1)))
    mesh.up()
    return mesh


def mesh_options(mesh: ReceptorMesh, shard_size: int) -> tuple[str, ...]:
    nodes = ",".join(mesh.nodes)
    return ("--mesh", str(mesh.control_socket), "--mesh-nodes", nodes, "--shard-size", str(shard_size))


def measure_reference(folder: Path, count: int) -> tuple[dict[str, float], object, object]:
    """Configure fresh hosts by a local run; then time runs that change nothing, by 1, 2 and 3 nodes."""
    bench = MeshBench(folder / "home", count)
    bench.make_project()
    times = {}
    with bench.hosts() as addresses:
        bench.write_addresses(bench.environment())
        bench.check_configured(*LIMIT)
        times["this machine alone"] = bench.check_configured(*LIMIT)
        for nodes in (1, 2, 3):
            mesh = start_mesh(folder / f"mesh-{nodes}", nodes)
            try:
                label = f"{nodes} mesh node{'s' if nodes > 1 else ''}"
                times[label] = bench.check_configured(*LIMIT, *mesh_options(mesh, -(-count // nodes)))
            finally:
                mesh.down()
        return times, bench.read_states(addresses), bench.read_registry()


def run_with_lost_node(folder: Path, count: int) -> tuple[object, object, list[str]]:
    """Configure fresh hosts on two nodes, kill one in the middle, resume on the other."""
    bench = MeshBench(folder / "home", count)
    bench.make_project()
    mesh = start_mesh(folder / "mesh", 2)
    try:
        with bench.hosts() as addresses:
            bench.write_addresses(bench.environment())
            command = bench.configure_command(
                *LIMIT, *mesh_options(mesh, -(-count // 4)), "--lost-after", "5"
            )
            run = subprocess.Popen(
                command, cwd=bench.project, env=bench.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip
            wait_for_first_host(bench, run)
            wait_for_unit(mesh, "mesh-2", finished=set(mesh.units()))
            mesh.kill("mesh-2")
            out, err = run.communicate()
            statuses = [host["status"] for host in json.loads(out)["hosts"]]
            if run.returncode != 3:
                sys.exit(f"a lost node gave exit code {run.returncode}: {err[-3000:]}")
            if statuses.count("ok") == count:
                sys.exit("mesh-2 was killed too late: every host was done")
            report = [f"mesh-2 killed: exit code 3, {statuses.count('ok')} of {count} hosts done"]
            seconds, code, result = bench.configure("--resume", *mesh_options(mesh, -(-count // 4)))
            if code:
                sys.exit(f"--resume: exit code {code}: {json.dumps(result)[:4000]}")
            report.append(f"--resume on mesh-1: {len(result['hosts'])} hosts, {seconds:.0f} s, exit code 0")
            return bench.read_states(addresses), bench.read_registry(), report
    finally:
        mesh.down()


def wait_for_first_host(bench: MeshBench, run: subprocess.Popen[str]) -> None:
    """Wait until the run's record has a finished host."""
    while run.poll() is None:
        for record in (bench.home / "artifacts").glob("*/run.json"):
            if json.loads(record.read_text())["done"]:
                return
        time.sleep(0.5)
    sys.exit(f"the run ended before a host was done: {run.communicate()[1][-3000:]}")


def wait_for_unit(mesh: ReceptorMesh, node: str, *, finished: set[str]) -> None:
    """Wait until the node has another unit that sends results."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        units = [unit for name, unit in mesh.units().items() if name not in finished]
        if any(unit["ExtraData"]["RemoteNode"] == node and unit["StdoutSize"] > 100_000 for unit in units):
            return
        time.sleep(0.5)
    sys.exit(f"{node} sent no results in {WAIT_SECONDS} s")


def measure_local_connections(folder: Path, count: int) -> dict[str, float]:
    """Time a run of four small tasks by Ansible's local connection, on this machine alone and by 1, 2 and 3 nodes."""
    root = folder / "project"
    for name in ("playbooks", "inventory/host_vars", "files"):
        (root / name).mkdir(parents=True)
    os.environ["GPUFLEET_HOME"] = str(root / ".gpufleet")
    shutil.copy(ROOT / "playbooks" / "ansible.cfg", root / "playbooks")
    target = f"{root}/files/{{{{ inventory_hostname }}}}"
    tasks = [
        {
            "name": f"Write file {number}",
            "ansible.builtin.copy": {"content": "x", "dest": f"{target}.{number}"},
        }
        for number in range(4)
    ]
    play = {"name": "Write files", "hosts": "all", "gather_facts": False, "tasks": tasks}
    (root / "playbooks/files.yml").write_text(json.dumps([play]))
    hosts: dict[str, object] = {f"host{number:03}": {} for number in range(count)}
    (root / "inventory/hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    for host in hosts:
        (root / "inventory/host_vars" / f"{host}.json").write_text(json.dumps(variables))
    plan = remote.plan_playbook_run(root, "files", "all")
    times = {"this machine alone": time_run(lambda: remote.run_playbook(plan, stream=io.StringIO()))}
    for nodes in (1, 2, 3):
        mesh = start_mesh(folder / f"mesh-{nodes}", nodes)
        options = remote.ShardingOptions(str(mesh.control_socket), mesh.nodes, max_hosts=-(-count // nodes))
        try:
            label = f"{nodes} mesh node{'s' if nodes > 1 else ''}"
            times[label] = time_run(lambda: remote.run_sharded(plan, options, stream=io.StringIO()))  # noqa: B023
        finally:
            mesh.down()
    return times


def time_run(run: Callable[[], remote.RunOutcome]) -> float:
    """Return the seconds of a run, which must succeed."""
    started = time.perf_counter()
    outcome = run()
    if outcome.exit_code:
        sys.exit(f"exit code {outcome.exit_code}: {outcome.errors}")
    return time.perf_counter() - started


def print_times(title: str, times: Mapping[str, float]) -> None:
    """Print the table."""
    print(f"\n{title}, all nodes on one machine with {os.cpu_count()} cores:")
    for label, seconds in times.items():
        print(f"| {label} | {seconds:.0f} s |")


def main() -> None:
    """Run it and print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    if "--local" in sys.argv and find_receptor():
        with tempfile.TemporaryDirectory(prefix="bench-mesh-") as name:
            print_times(f"{count} hosts, local connection", measure_local_connections(Path(name), count))
        return
    if missing := find_missing_requirement():
        sys.exit(f"hosts cannot be booted here: {missing}")
    if not find_receptor():
        print("skipped: receptor is not on PATH")
        return
    with tempfile.TemporaryDirectory(prefix="bench-mesh-") as name:
        folder = Path(name)
        for part in ("reference", "lost"):
            (folder / part).mkdir()
        times, states, registry = measure_reference(folder / "reference", count)
        mesh_states, mesh_registry, report = run_with_lost_node(folder / "lost", count)
    for host in sorted(states):
        if differences := stock_state.differences(states[host], mesh_states[host]):
            sys.exit(f"{host} differs from the local run: {differences[:5]}")
    if registry != mesh_registry:
        sys.exit(f"the registries differ: {describe_difference(registry, mesh_registry)}")
    print_times(f"site.yml, nothing to change, {count} hosts", times)
    print(*report, sep="\n")
    print(f"state of {count} hosts and registry: the same as after a local run")


def describe_difference(first: object, second: object) -> str:
    """Return the first difference of two JSON values."""
    if isinstance(first, dict) and isinstance(second, dict):
        key = next(key for key in {**first, **second} if first.get(key) != second.get(key))
        return f"{key}: {describe_difference(first.get(key), second.get(key))}"
    if isinstance(first, list) and isinstance(second, list):
        for one, other in zip(first, second, strict=False):
            if one != other:
                return describe_difference(one, other)
    return f"{str(first)[:300]} / {str(second)[:300]}"


if __name__ == "__main__":
    main()

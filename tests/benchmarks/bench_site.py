"""site.yml on rehearsed blades against the same outcome by stock modules, in one run.

    python tests/benchmarks/bench_site.py [--blades 20] [--rounds 1]

Three ways: ours; stock modules as experts tune them (20 forks, pipelining, no fact gathering); stock modules under
Ansible's defaults. Each way converges fresh hosts. Then all three run in turn, with nothing to change, on the hosts
that ours has converged. Burn-in is in none. Afterwards hosts of all ways are compared: same files, packages, users,
units. CPU seconds are those of the controller's processes and of all processes of the hosts; unlike the wall time,
they hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import stock_state

from gpufleet import fleet
from gpufleet.rehearsal import rack
from gpufleet.rehearsal.rack import host_processes
from gpufleet.rehearsal.rack.faults import parse_faults
from gpufleet.rehearsal.rack.plan import rehearsal_name_prefix
from gpufleet.rehearsal.rack.requirements import find_missing_requirement

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = Path(sys.executable).parent
PARTS = ("Pulumi.yaml", "stacks", "inventory", "playbooks")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5JmnT3zUJYYdGgrYXpv0sNZQnXCKHlkmPRmEbkLlJ0"
SETTINGS = {
    "gpufleet_burn_in": "never",
    "users_and_access_operators": [
        {"name": name, "sudo": "nopasswd", "authorized_keys": [f"{KEY} {name}"]} for name in ("ada", "grace")
    ],
}
# What experts set first. ControlPersist is a default of Ansible already.
TUNED = "[defaults]\nforks = 20\ngathering = explicit\n\n[ssh_connection]\npipelining = True\n"
WAYS = ("ours", "tuned", "defaults")
CASES = ("converge", "nothing to change")
GOALS = {("converge", "tuned"): 1.5, ("converge", "defaults"): 3.0,
         ("nothing to change", "tuned"): 2.0, ("nothing to change", "defaults"): 4.0}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """What one run of a playbook cost, in seconds."""

    wall: float
    controller_cpu: float
    hosts_cpu: float


@dataclass
class Bench:
    """A project in a folder of its own, with the rack `blades-1` cut to so many hosts."""

    home: Path
    count: int
    messages: list[str] = field(default_factory=list)
    runs: int = 0

    @property
    def racks(self) -> list[fleet.StackRack]:
        file = self.project / "inventory" / "blades-1.yaml"
        return [fleet.StackRack(name="blades-1", rack=fleet.load_rack(file, file.parent))]

    @property
    def project(self) -> Path:
        return self.home.parent / "project"

    def make_project(self) -> None:
        """Copy what makes a project; the rack declares as many blades as are booted."""
        self.project.mkdir()
        for part in PARTS:
            source = ROOT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.project / part)
        file = self.project / "inventory" / "blades-1.yaml"
        file.write_text(file.read_text().replace("blade[01-20]", f"blade[01-{self.count:02}]"))
        (self.home.parent / "settings.json").write_text(json.dumps(SETTINGS))

    @contextmanager
    def hosts(self) -> Iterator[dict[str, str]]:
        """Boot fresh hosts; give their addresses by name."""
        try:
            statuses = rack.start_racks(self, self.racks, parse_faults("", "bench"), self.messages.append)
            yield {host.name: host.address for host in statuses}
        finally:
            rack.stop_racks(self, self.messages.append)

    def command(self, way: str) -> tuple[list[str], Path]:
        """Return the command line of a way, and its folder."""
        folder = self.home.parent
        if way == "ours":
            settings = ["--limit", "rack_blades_1", "-e", f"@{folder / 'settings.json'}"]
            return [str(PROGRAMS / "ansible-playbook"), "site.yml", *settings], self.project / "playbooks"
        lists = ["-i", str(folder / "hosts.json"), "-e", f"@{folder / 'stock.json'}"]
        return [str(PROGRAMS / "ansible-playbook"), str(HERE / "stock/site.yml"), *lists], folder

    def environment(self, way: str) -> dict[str, str]:
        """Return a way's environment: nothing of who runs the benchmark, and no connection of an earlier run."""
        self.runs += 1
        env = plain_environment() | {
            "ANSIBLE_HOME": str(self.home.parent / f"ansible-{way}"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.home.parent / f"cp{self.runs}"),
        }
        if way != "ours":
            configuration = self.home.parent / f"{way}.cfg"  # the defaults: a configuration that sets nothing
            configuration.write_text(TUNED if way == "tuned" else "")
            return env | {"ANSIBLE_CONFIG": str(configuration)}
        return env | {
            "GPUFLEET_HOME": str(self.home),
            "GPUFLEET_REHEARSAL": "production",
            "GPUFLEET_DATABASE_URL": f"sqlite:///{self.home}/registry.db",
            "GPUFLEET_ADDRESS_BOOK": str(self.home / "addresses.json"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.home / "ssh/id_ed25519"),
            "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={self.home}/ssh/known_hosts",
        }

    def hosts_cpu(self) -> float:
        """Return the CPU seconds of all processes of the hosts until now, those that have ended included."""
        prefix = rehearsal_name_prefix(self.home)
        labels = [path.name for path in host_processes.NAMESPACES.glob(f"{prefix}-*")]
        pids = [pid for found in host_processes.find_host_processes(labels).values() for pid in found]
        return sum(process_ticks(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")

    def play(self, way: str, *, quiet: bool) -> Sample:
        """Run a way's playbook. Every host must succeed, and change nothing if ``quiet``."""
        command, folder = self.command(way)
        env, cpu_before, hosts_before = self.environment(way), children_cpu(), self.hosts_cpu()
        started = time.perf_counter()
        result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        took = time.perf_counter() - started
        recap = [line for line in result.stdout.splitlines() if "unreachable=" in line]
        wanted = ["failed=0", "unreachable=0", "rescued=0", *(["changed=0"] if quiet else [])]
        if result.returncode or not recap or any(word not in line for line in recap for word in wanted):
            sys.exit(f"{way} did not do its work:\n{result.stdout[-4000:]}{result.stderr[-2000:]}")
        return Sample(took, children_cpu() - cpu_before, self.hosts_cpu() - hosts_before)

    def write_addresses(self, env: Mapping[str, str]) -> None:
        """Let the registry read the rack and its address book. The stack's clouds, not rehearsed here, can't answer."""
        command = [PROGRAMS / "gpufleet", "nodes", "sync", "-s", "production"]
        result = subprocess.run(
            command, cwd=self.project, env=dict(env), capture_output=True, text=True, check=False
        )
        if f"address_book: {self.count} nodes" not in result.stdout:
            sys.exit(f"gpufleet nodes sync: {result.stdout}{result.stderr}")

    def look(self, address: str) -> dict[str, object]:
        """Return a host's state as `stock_state.py` reads it there."""
        files = [
            "-i",
            str(self.home / "ssh/id_ed25519"),
            "-o",
            f"UserKnownHostsFile={self.home}/ssh/known_hosts",
        ]
        command = ["ssh", "-F", "none", *files, "-o", "BatchMode=yes", f"root@{address}", "python3", "-"]
        source = (HERE / "stock_state.py").read_text()
        result = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
        return json.loads(result.stdout)


def process_ticks(pid: int) -> int:
    """Return the clock ticks of a process and of its children that have ended; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(value) for value in fields[11:15])


def children_cpu() -> float:
    """Return the CPU seconds of all ended children of this process."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def plain_environment() -> dict[str, str]:
    """Return an environment without any of Ansible's or our settings."""
    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "USER", "TMPDIR") if name in os.environ}
    return inherited | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"}


def write_stock_inventory(bench: Bench, addresses: Mapping[str, str]) -> None:
    """Write the inventory of the stock playbook."""
    login = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(bench.home / "ssh/id_ed25519"),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={bench.home}/ssh/known_hosts",
    }
    hosts = {name: {"ansible_host": address} for name, address in addresses.items()}
    inventory = {"all": {"hosts": hosts, "vars": login}}
    (bench.home.parent / "hosts.json").write_text(json.dumps(inventory))


Samples = dict[tuple[str, str], list[Sample]]


def measure_round(bench: Bench, samples: Samples) -> None:
    """Converge fresh hosts with each way, and run all ways on the hosts of the first with nothing to change."""
    with bench.hosts() as addresses:
        bench.write_addresses(bench.environment("ours"))
        write_stock_inventory(bench, addresses)
        first = addresses[min(addresses)]
        before = bench.look(first)
        samples["converge", "ours"].append(bench.play("ours", quiet=False))
        after = bench.look(first)
        lists = stock_state.is_expected(before, after, min(addresses))
        (bench.home.parent / "stock.json").write_text(json.dumps({"stock": lists}))
        for way in WAYS:
            samples["nothing to change", way].append(bench.play(way, quiet=True))
    for way in WAYS[1:]:
        with bench.hosts() as addresses:
            write_stock_inventory(bench, addresses)
            samples["converge", way].append(bench.play(way, quiet=False))
            if differences := stock_state.differences(after, bench.look(addresses[min(addresses)])):
                sys.exit(f"ours and {way} do not end alike:\n  " + "\n  ".join(differences))


def print_table(samples: Samples) -> None:
    """Print the medians, and how many times faster ours is."""
    print(f"{'':<34}{'defaults':>10}{'tuned':>10}{'ours':>10}   times the defaults  times the tuned")
    for case in CASES:
        for quantity in ("wall", "controller_cpu", "hosts_cpu"):
            medians = {
                way: statistics.median(getattr(sample, quantity) for sample in samples[case, way])
                for way in WAYS
            }
            label = f"{case}, {quantity.replace('_', ' ').replace('cpu', 'CPU')}"
            row = f"{label:<34}" + "".join(f"{medians[way]:>8.1f} s" for way in reversed(WAYS))
            for way in reversed(WAYS[1:]):
                goal = f"(goal {GOALS[case, way]})" if quantity == "wall" else ""
                row += f"{medians[way] / medians['ours']:>8.1f} {goal:<11}"
            print(row.rstrip())


def main() -> None:
    """Measure all ways and print the table."""
    parser = argparse.ArgumentParser(description="Measure site.yml against stock modules.")
    parser.add_argument("--blades", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    if reason := find_missing_requirement():
        print(f"left out: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        bench = Bench(Path(folder) / "home", options.blades)
        bench.home.mkdir()
        bench.make_project()
        samples: Samples = {(case, way): [] for case in CASES for way in WAYS}
        for _ in range(options.rounds):
            measure_round(bench, samples)
    rounds = f"medians of {options.rounds} rounds" if options.rounds > 1 else "one round"
    print(f"{options.blades} blades, {os.cpu_count()} cores, {rounds}; all ways end alike")
    print_table(samples)


if __name__ == "__main__":
    main()

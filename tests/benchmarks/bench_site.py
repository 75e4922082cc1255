"""site.yml on 20 rehearsed blades against the same outcome by stock modules under Ansible's defaults, in one run.

    python tests/benchmarks/bench_site.py [HOSTS]

Each side converges fresh hosts, then runs again with nothing to change. Burn-in is in neither; identifying a host is
in both (our probe, Ansible's facts). Afterwards a host of each side is compared: same files, packages, users, units.
Goals: at least 2.5 times faster to converge, at least 4 times faster when nothing changes.
"""

from __future__ import annotations

import json
import os
import shutil
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
from gpufleet.rehearsal.rack.faults import parse_faults
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


@dataclass
class Bench:
    """A project in a folder of its own, with the rack `blades-1` cut to so many hosts."""

    home: Path
    count: int
    messages: list[str] = field(default_factory=list)

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

    def environment(self) -> dict[str, str]:
        """Return what our side needs to know of the rehearsal, and nothing of who runs the benchmark."""
        env = plain_environment() | {
            "GPUFLEET_HOME": str(self.home),
            "GPUFLEET_REHEARSAL": "production",
            "GPUFLEET_DATABASE_URL": f"sqlite:///{self.home}/registry.db",
            "GPUFLEET_ADDRESS_BOOK": str(self.home / "addresses.json"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.home / "ssh/id_ed25519"),
            "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={self.home}/ssh/known_hosts",
        }
        return env | {"ANSIBLE_HOME": str(self.home.parent / "ansible-ours")}

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


def plain_environment() -> dict[str, str]:
    """Return an environment without any of Ansible's or our settings."""
    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "USER", "TMPDIR") if name in os.environ}
    return inherited | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"}


def play(command: list[str], cwd: Path, env: Mapping[str, str], *, quiet: bool) -> float:
    """Run ansible-playbook; return its seconds. Every host must succeed, and change nothing where ``quiet``."""
    started = time.perf_counter()
    result = subprocess.run(command, cwd=cwd, env=dict(env), capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    recap = [line for line in result.stdout.splitlines() if "unreachable=" in line]
    bad = [
        line
        for line in recap
        if "failed=0" not in line or "unreachable=0" not in line or "rescued=0" not in line
    ]
    restless = [line for line in recap if quiet and "changed=0" not in line]
    if result.returncode or bad or restless or not recap:
        sys.exit(
            f"{' '.join(command[:3])} did not do its work:\n{result.stdout[-4000:]}{result.stderr[-2000:]}"
        )
    return took


def measure_gpufleet(bench: Bench) -> tuple[list[float], dict[str, object], dict[str, object]]:
    """Run our site.yml twice; return its seconds and a host's state before and after."""
    env = bench.environment()
    command = [str(PROGRAMS / "ansible-playbook"), "site.yml", "--limit", "rack_blades_1", "-e"]
    command.append(f"@{bench.home.parent / 'settings.json'}")
    with bench.hosts() as addresses:
        bench.write_addresses(env)
        first = min(addresses)
        before = bench.look(addresses[first])
        times = [play(command, bench.project / "playbooks", env, quiet=quiet) for quiet in (False, True)]
        return times, before, bench.look(addresses[first])


def stock(bench: Bench, lists: Mapping[str, object]) -> tuple[list[float], dict[str, object]]:
    """Run the stock playbook twice, without any configuration; return its seconds and a host's state after."""
    folder = bench.home.parent
    empty = folder / "empty.cfg"  # a configuration that says nothing: the default for everything
    empty.touch()
    env = plain_environment() | {"ANSIBLE_CONFIG": str(empty), "ANSIBLE_HOME": str(folder / "ansible-stock")}
    (folder / "stock.json").write_text(json.dumps({"stock": lists}))
    with bench.hosts() as addresses:
        login = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(bench.home / "ssh/id_ed25519"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={bench.home}/ssh/known_hosts",
        }
        hosts = {name: {"ansible_host": address} for name, address in addresses.items()}
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": login}}))
        command = [str(PROGRAMS / "ansible-playbook"), str(HERE / "stock/site.yml")]
        command += ["-i", str(folder / "hosts.json"), "-e", f"@{folder / 'stock.json'}"]
        times = [play(command, folder, env, quiet=quiet) for quiet in (False, True)]
        return times, bench.look(addresses[min(addresses)])


def main() -> None:
    """Measure both sides and print the ratios."""
    if reason := find_missing_requirement():
        print(f"left out: {reason}")
        return
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        bench = Bench(Path(folder) / "home", int(sys.argv[1]) if len(sys.argv) > 1 else 20)
        bench.home.mkdir()
        bench.make_project()
        our_times, before, after = measure_gpufleet(bench)
        lists = stock_state.is_expected(before, after, "blade01")
        stock_times, stock_after = stock(bench, lists)
        if differences := stock_state.differences(after, stock_after):
            sys.exit("the two ways do not end alike:\n  " + "\n  ".join(differences))
        print(f"{bench.count} hosts, {os.cpu_count()} cores; both ways end alike")
        print(f"{'':<18}{'stock':>9}{'ours':>9}{'ratio':>8}   goal")
        for row, theirs, own_value, goal in zip(
            ("converge", "nothing to change"), stock_times, our_times, (2.5, 4.0), strict=True
        ):
            print(f"{row:<18}{theirs:>7.1f} s{own_value:>7.1f} s{theirs / own_value:>7.1f}x   {goal}x")


if __name__ == "__main__":
    main()

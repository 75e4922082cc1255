"""A lab for roles: a few booted hosts, real ansible-playbook runs on them, and tests over SSH.

python tests/roles/lab.py up   --home DIR base01 nv01=servers:H100x8 blade01=blades@arm64
python tests/roles/lab.py run  --home DIR PLAY.yml [-- --check --diff]
python tests/roles/lab.py ssh  --home DIR nv01 'apt-cache policy nvidia-open'
python tests/roles/lab.py down --home DIR
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner
import testinfra

from gpufleet import catalog, fleet
from gpufleet.errors import GpufleetError
from gpufleet.nodes.declaration import RACK_KINDS
from gpufleet.nodes.host import ansible_group_name
from gpufleet.rehearsal import processes, rack
from gpufleet.rehearsal.environment import build_registry_and_ssh_environment
from gpufleet.rehearsal.rack.faults import parse_faults
from gpufleet.rehearsal.rack.images import native_arch
from gpufleet.remote.plan import SHIPPED_PLAYBOOKS, build_ansible_environment

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {"blades": "Compute Blade CM4 8GB", "bench": "Raspberry Pi 5 8GB", "servers": "GPU server"}
# Those of ansible.cfg without `registry`, which costs a short run a third of its time.
CALLBACKS = "gpufleet.fleet.play_record,gpufleet.fleet.filter_preload"
STATUS_BY_EVENT = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


@dataclass(frozen=True)
class Result:
    """The outcome of one task on one host."""

    play: str
    task: str
    host: str
    status: str
    changed: bool
    output: dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A playbook run, task by task."""

    rc: int
    results: tuple[Result, ...]
    stdout: str

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(result.task for result in self.results))

    @property
    def stats(self) -> dict[str, dict[str, int]]:
        """Return host -> status -> number of tasks."""
        counts: dict[str, dict[str, int]] = {}
        for result in self.results:
            host_counts = counts.setdefault(
                result.host, dict.fromkeys(("ok", "changed", "failed", "unreachable", "skipped"), 0)
            )
            host_counts[result.status] += 1
            host_counts["changed"] += result.changed
        return counts

    def select_plays(self, *plays: str) -> Run:
        """Return the part that belongs to the named plays."""
        return Run(self.rc, tuple(result for result in self.results if result.play in plays), self.stdout)

    def results_of(self, host: str, status: str | None = None) -> list[Result]:
        return [r for r in self.results if r.host == host and status in (None, r.status)]

    def changed(self, host: str | None = None) -> int:
        return sum(result.changed for result in self.results if host in (None, result.host))

    def changed_tasks(self, host: str | None = None) -> list[str]:
        return [r.task for r in self.results if r.changed and host in (None, r.host)]

    def failure_text(self, host: str) -> str | None:
        """Return the message of the task that stopped a host, or None."""
        failures = [r for r in self.results if r.host == host and r.status in ("failed", "unreachable")]
        return (
            f"{failures[-1].task}: {failures[-1].output.get('msg', failures[-1].output)}"
            if failures
            else None
        )


@dataclass
class Lab:
    """Hosts in a home of their own; ``up`` takes the complete set of hosts."""

    home: Path
    report: Any = print
    reads_package_lists: bool = True  # True if apt reads its lists on new hosts
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = Path(self.home).resolve()
        if not self.hosts and self._book.is_file():
            self.hosts = json.loads(self._book.read_text())

    @property
    def _book(self) -> Path:
        return self.home / "lab.json"

    def up(self, hosts: dict[str, dict[str, Any]]) -> dict[str, rack.HostStatus]:
        """Boot these hosts (kind, accelerators, arch, faults, disks); unchanged running hosts are kept."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.hosts = self._with_slots(hosts)
        self._book.write_text(json.dumps(self.hosts, indent=1))
        statuses_found = rack.start_racks(
            self, self._racks(), parse_faults(self._faults(), "lab"), self.report
        )
        self._write_inventory()
        statuses = {self._name(status.place): status for status in statuses_found}
        sound = [n for n, s in statuses.items() if s.arch == native_arch() and not self.hosts[n]["faults"]]
        self._read_package_lists(sound if self.reads_package_lists else [])
        return statuses

    def _read_package_lists(self, names: list[str]) -> None:
        """Run apt-get update where it never ran: check mode needs package lists."""
        script = "ls /var/lib/apt/lists/*_Packages >/dev/null 2>&1 || apt-get update -qq"
        with ThreadPoolExecutor() as many:
            for done in many.map(lambda name: self.host(name).run(script), names):
                if done.rc:
                    self.report(f"apt-get update: {done.stderr.strip()}")

    def add(self, hosts: dict[str, dict[str, Any]]) -> None:
        """Boot these hosts in addition to the existing ones."""
        if missing := {name: spec for name, spec in hosts.items() if name not in self.hosts}:
            self.up({**self.hosts, **missing})

    def down(self) -> None:
        """Stop everything: runs, SSH connections, hosts."""
        processes.stop_rehearsal_processes(self.home)
        rack.stop_racks(self, self.report)
        self._book.unlink(missing_ok=True)
        self.hosts = {}

    def run(
        self,
        play: str | Path,
        limit: str | None = None,
        *,
        check: bool = False,
        extra_vars: dict[str, Any] | None = None,
        tags: str | None = None,
        options: str = "",
        environment: dict[str, str] | None = None,
        records: bool = False,
    ) -> Run:
        """Run a playbook (a path, or its text) on the lab's hosts; ``records``: it writes to the registry."""
        self._write_inventory()
        path = Path(play) if isinstance(play, Path) or "\n" not in play else self._text_play(play)
        runner = self.home / "runner"
        shutil.rmtree(runner, ignore_errors=True)  # runner would read what it wrote last time
        runner.mkdir()
        arguments = [*(["--check", "--diff"] if check else []), *(["--tags", tags] if tags else []), options]
        env = self.env() if records else {**self.env(), "ANSIBLE_CALLBACKS_ENABLED": CALLBACKS}
        completed = ansible_runner.interface.run(
            private_data_dir=str(runner), project_dir=str(ROOT / "playbooks"),
            playbook=str(path.resolve()), quiet=True,
            inventory=str(self.home / "inventory"), limit=limit, extravars=extra_vars or {},
            cmdline=" ".join(arguments) or None, envvars={**env, **(environment or {})},
            settings={"suppress_env_files": True},
            cancel_callback=lambda: False,  # else it takes the interrupts of pytest, for good
        )  # fmt: skip
        results = tuple(filter(None, map(task_result, completed.events)))
        stdout = completed.stdout.read()
        shutil.rmtree(runner / "artifacts", ignore_errors=True)
        return Run(completed.rc, results, stdout)

    def host(self, name: str, user: str = "root") -> Any:
        """Look at a host over SSH, its key checked strictly."""
        sockets = processes.ssh_control_folder(self.home)
        sockets.mkdir(mode=0o700, exist_ok=True)
        shared = f"-o ControlMaster=auto -o ControlPersist=30 -o ControlPath={sockets}/%C"
        files = f"-F none -o UserKnownHostsFile={self.home}/ssh/known_hosts -o StrictHostKeyChecking=yes"
        return testinfra.get_host(
            f"ssh://{user}@{self.address(name)}", ssh_identity_file=str(self.home / "ssh/id_ed25519"),
            ssh_extra_args=f"{files} {shared}",
        )  # fmt: skip

    def address(self, name: str) -> str:
        """Return a host's address."""
        book = json.loads((self.home / "addresses.json").read_text())
        return str(book[self.place(name)])

    def place(self, name: str) -> str:
        """Return where a host is: rack/slot."""
        spec = self.hosts[name]
        return f"{_rack_name(spec['kind'])}/{spec['slot']}"

    def drives(self, name: str) -> list[str]:
        """Return the block devices that a host has, found with losetup by their backing files."""
        files = sorted((self.home / "rack" / self.place(name).replace("/", "-") / "drives").iterdir())
        lines = [subprocess.check_output(["losetup", "--associated", file], text=True) for file in files]
        assert all(lines), "a drive's file has no device"
        return [line.partition(":")[0] for line in lines]

    def snapshot(self, name: str) -> set[str]:
        """Return every file, link, package and unit state that a role could change, as one line each."""
        return set(self.host(name).check_output(SNAPSHOT).splitlines())

    def snapshots(self, names: Iterable[str]) -> dict[str, set[str]]:
        """Return the snapshots of several hosts, taken at the same time."""
        names = list(names)
        with ThreadPoolExecutor() as many:
            return dict(zip(names, many.map(self.snapshot, names), strict=True))

    def env(self) -> dict[str, str]:
        """Return the environment for Ansible, as a rehearsal has it."""
        base = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
        variables = build_registry_and_ssh_environment(self.home, "poc")
        variables["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(processes.ssh_control_folder(self.home))
        return build_ansible_environment(ROOT, base | variables)

    def _with_slots(self, hosts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return each host with its slot: the previous one, else the next free one of its rack."""
        specs: dict[str, dict[str, Any]] = {}
        for name, fields in hosts.items():
            spec = {
                "kind": "servers",
                "accelerators": [],
                "arch": "",
                "faults": [],
                "disks": 0,
                "system": "",
                **fields,
            }
            known = self.hosts.get(name, {})
            if "slot" not in spec and known.get("kind") == spec["kind"]:
                spec["slot"] = known["slot"]
            specs[name] = spec
        for spec in specs.values():
            used = {s.get("slot") for s in specs.values() if s["kind"] == spec["kind"]}
            spec.setdefault("slot", next(n for n in range(1, 200) if n not in used))
        return specs

    def _racks(self) -> list[fleet.StackRack]:
        racks = []
        for kind in sorted({spec["kind"] for spec in self.hosts.values()}):
            nodes = [
                {"name": name, "slot": spec["slot"], "accelerators": spec["accelerators"]}
                for name, spec in self.hosts.items()
                if spec["kind"] == kind
            ]
            rack_fields = {
                "plugin": "gpufleet.fleet.rack",
                "name": _rack_name(kind),
                "kind": kind,
                "site": "lab",
            }
            # Not by load_rack, which requires cards for a server without catalogue entry: some hosts here have none.
            declared = fleet.Rack.model_validate(
                {**rack_fields, "machine": MACHINES[kind], "storage_gb": 500, "nodes": nodes}
            )
            racks.append(fleet.StackRack(name=declared.name, rack=declared))
        return racks

    def _faults(self) -> str:
        named = {self.place(name): spec["faults"] for name, spec in self.hosts.items() if spec["faults"]}
        foreign = [self.place(name) for name, spec in self.hosts.items() if spec["arch"] == "arm64"]
        disks = {self.place(name): spec["disks"] for name, spec in self.hosts.items() if spec.get("disks")}
        systems = {
            self.place(name): spec["system"] for name, spec in self.hosts.items() if spec.get("system")
        }
        return json.dumps({"faults": named, "arm64": foreign, "disks": disks, "systems": systems}, indent=0)

    def _name(self, place: str) -> str:
        return next(name for name in self.hosts if self.place(name) == place)

    def _text_play(self, text: str) -> Path:
        path = self.home / "plays" / "given.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def _write_inventory(self) -> None:
        """Write the inventory that the plugin would return for these hosts, and the shipped group variables."""
        folder = self.home / "inventory"
        shutil.rmtree(folder, ignore_errors=True)
        shared = folder / "group_vars" / "all"
        shared.mkdir(parents=True)
        shutil.copy(SHIPPED_PLAYBOOKS / "group_vars/all.yml", shared / "playbooks.yml")
        for file in sorted((ROOT / "inventory/group_vars").iterdir()):
            target = shared / "inventory.yaml" if file.stem == "all" else folder / "group_vars" / file.name
            shutil.copy(file, target) if file.is_file() else shutil.copytree(file, target)
        groups: dict[str, dict[str, Any]] = {}
        for use in self._racks():
            for node in use.rack.nodes:
                for group in _groups(use, node):
                    groups.setdefault(group, {"hosts": {}})["hosts"][node.name] = None
        hosts = {name: self._variables(name) for name in self.hosts}
        (folder / "hosts.yaml").write_text(
            json.dumps({"all": {"hosts": hosts, "children": groups}}, indent=1)
        )

    def _variables(self, name: str) -> dict[str, Any]:
        spec = self.hosts[name]
        return {
            "ansible_host": self.address(name),
            "gpufleet_name": name,
            "gpufleet_kind": RACK_KINDS[spec["kind"]],
            "gpufleet_rack": _rack_name(spec["kind"]),
            "gpufleet_slot": spec["slot"],
            "gpufleet_machine": MACHINES[spec["kind"]],
            "gpufleet_state": "expected",
            "gpufleet_is_new": True,
            "gpufleet_is_busy": False,
        }


SNAPSHOT = (
    "find /etc /usr /opt /srv /home /root /boot -xdev '(' -name __pycache__ -o -path /root/.ansible ')' -prune"
    " -o '(' -type f -o -type l ')' -printf '%p %s %m %u %T@ %l\\n';"
    " dpkg-query -W -f '${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\\n';"
    " systemctl list-unit-files --no-legend --plain --type=service,timer,socket,path;"
    # Without those that D-Bus starts on demand.
    " systemctl list-units --no-legend --plain --type=service --state=running | cut -d' ' -f1"
    " | grep -Ev '^(user|systemd-(hostname|locale|time)d|polkit)'"
)


def _groups(use: fleet.StackRack, node: fleet.RackNode) -> list[str]:
    groups = [
        ansible_group_name("kind", RACK_KINDS[use.rack.kind]),
        ansible_group_name("rack", use.name),
        "new_nodes",
    ]
    groups += ["new_blades"] if use.rack.kind == "blades" else []
    for card in node.accelerators:
        vendor = catalog.get_accelerator(card.model).vendor
        groups += [ansible_group_name("gpu_model", card.model), ansible_group_name("gpu_vendor", vendor)]
    return groups


def _rack_name(kind: str) -> str:
    return f"{kind}-1"


def task_result(event: dict[str, Any]) -> Result | None:
    status = STATUS_BY_EVENT.get(event["event"])
    if status is None:
        return None
    data = event["event_data"]
    output = data.get("res") if isinstance(data.get("res"), dict) else {"msg": str(data.get("res"))}
    ignored = status == "failed" and data.get("ignore_errors")
    changed = bool(output.get("changed")) and status in ("ok", "failed")
    return Result(
        data.get("play", ""), data.get("task", ""), data["host"], "ok" if ignored else status, changed, output
    )


def parse_host(text: str) -> tuple[str, dict[str, Any]]:
    """Read ``nv01=servers:H100x8,T4@arm64!disk_full`` or ``base13=servers@debian-13`` from the command line."""
    text, *faults = text.split("!")
    text, _, arch = text.partition("@")
    name, _, rest = text.partition("=")
    kind, _, cards = rest.partition(":")
    accelerators = []
    for card in filter(None, cards.split(",")):
        model, times, count = card.rpartition("x")
        accelerators.append(
            {"model": model, "count": int(count)} if times and count.isdigit() else {"model": card}
        )
    is_arch = arch in ("", "amd64", "arm64")
    return name, {
        "kind": kind or "servers",
        "accelerators": accelerators,
        "arch": arch if is_arch else "",
        "system": "" if is_arch else arch,
        "faults": faults,
    }


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("up", "add", "run", "ssh", "status", "down"))
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_intermixed_args(arguments[:split])
    lab = Lab(options.home)
    if options.verb in ("up", "add"):
        getattr(lab, options.verb)(dict(map(parse_host, options.arguments)))
        print(*(f"{name} {lab.address(name)}" for name in lab.hosts), sep="\n")
    elif options.verb == "down":
        lab.down()
    elif options.verb == "status":
        print(*rack.collect_host_statuses(lab), sep="\n")
    elif options.verb == "ssh":
        completed = lab.host(options.arguments[0]).run(" ".join(options.arguments[1:]))
        print(completed.stdout, end="")
        print(completed.stderr, end="", file=sys.stderr)
        return int(completed.rc)
    else:
        lab._write_inventory()
        command = [
            "ansible-playbook",
            "-i",
            str(lab.home / "inventory"),
            *options.arguments,
            *arguments[split + 1 :],
        ]
        return subprocess.run(command, env=lab.env(), cwd=ROOT / "playbooks", check=False).returncode
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except GpufleetError as error:
        sys.exit(str(error))

"""Fixtures for booted hosts: racks in temporary homes, stopped and removed after the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpufleet import fleet
from gpufleet.rehearsal import rack
from gpufleet.rehearsal.environment import build_registry_and_ssh_environment
from gpufleet.rehearsal.rack.faults import parse_faults
from gpufleet.rehearsal.rack.plan import rehearsal_name_prefix

INVENTORY = Path(__file__).resolve().parents[2] / "inventory"


def pytest_collection_modifyitems(items):
    """Mark all tests here; leave them out where no privilege or kernel can boot a host."""
    folder = Path(__file__).parent
    host_tests = [item for item in items if folder in item.path.parents]
    missing = "hosts need Linux" if sys.platform != "linux" else "hosts need root" if os.geteuid() else None
    for item in host_tests:
        item.add_marker(pytest.mark.hosts)
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))


@dataclass
class RackHome:
    """A home with hosts in it: the rack file `blades-poc` (four blades), cut to the slots of the test."""

    home: Path
    slots: int = 4
    messages: list[str] = field(default_factory=list)

    def declaration(self):
        """Return the shipped rack file, cut to so many slots."""
        text = (INVENTORY / "blades-poc.yaml").read_text()
        return text.replace("poc-blade[01-04]", f"poc-blade[01-{self.slots:02}]")

    @property
    def racks(self):
        file = self.home.parent / f"{self.home.name}-rack" / "blades-poc.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(self.declaration())
        return [fleet.StackRack(name="blades-poc", rack=fleet.load_rack(file, file.parent))]

    def up(self, faults=""):
        return {
            h.place: h
            for h in rack.start_racks(self, self.racks, parse_faults(faults, "test"), self.messages.append)
        }

    def down(self):
        rack.stop_racks(self, self.messages.append)

    def rehearsal_environment(self, base):
        """Return ``base`` with the variables of `rehearse env` for this home."""
        return base | build_registry_and_ssh_environment(self.home, "poc")

    def address(self, place):
        return json.loads((self.home / "addresses.json").read_text())[place]

    def ssh(self, place, command, *options):
        """Run a command on a host over SSH, its host key checked strictly."""
        strict = ["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        files = ["-i", self.home / "ssh/id_ed25519", "-o", f"UserKnownHostsFile={self.home}/ssh/known_hosts"]
        return subprocess.run(
            ["ssh", "-F", "none", *files, *strict, *options, f"root@{self.address(place)}", command],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def read(self, place, command):
        result = self.ssh(place, command)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def process_ids_inside(self):
        """List the processes in this home's namespaces, as (pid, start time), without the tested code."""
        labels = [
            line.split()[0]
            for line in _run("ip", "netns").splitlines()
            if line.startswith(rehearsal_name_prefix(self.home))
        ]
        return {p for label in labels for p in map(is_alive, _run("ip", "netns", "pids", label).split()) if p}

    def survivors(self, processes):
        """Return which of the processes that were seen still live."""
        return {process for process in processes if is_alive(process[0]) == process}

    def name_of(self, pid):
        return _text(f"/proc/{pid}/comm").strip()

    def leftovers(self):
        """Return everything of this home that still exists on the machine."""
        mark = rehearsal_name_prefix(self.home)
        rows = [*_run("ip", "netns").splitlines(), *_run("ip", "-brief", "link").splitlines()]
        leftovers = [row.split()[0] for row in rows if row.startswith(mark)]
        leftovers += [f"mount {line}" for line in _run("mount").splitlines() if str(self.home) in line]
        leftovers += [path for top in ("/sys/fs/cgroup", "/run/systemd/nspawn") for path in _find(top, mark)]
        leftovers += [
            f"process {pid}" for pid in _pids() if str(self.home) in _text(f"/proc/{pid}/mountinfo")
        ]
        leftovers += [f"process {pid}" for pid in _pids() if str(self.home) in _text(f"/proc/{pid}/cmdline")]
        leftovers += [
            line for line in _run("losetup", "--list", "--noheadings").splitlines() if str(self.home) in line
        ]
        files = (
            self.home / "rack",
            self.home / "packages",
            self.home / "addresses.json",
            self.home / "ssh/known_hosts",
        )
        return leftovers + [str(path) for path in files if path.exists()]


def is_alive(pid):
    """Return (pid, start time) of a process, or None if it has ended, also as a zombie."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(pid), int(fields[19])) if fields and fields[0] != "Z" else None


def _find(top, mark):
    """List the files and folders whose names begin so; folders of other hosts may vanish meanwhile."""
    return [
        f"{folder}/{name}"
        for folder, folders, files in os.walk(top)
        for name in (*folders, *files)
        if name.startswith(mark)
    ]


def _pids():
    return [
        path.name for path in Path("/proc").iterdir() if path.name.isdigit() and int(path.name) != os.getpid()
    ]


def _text(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def faulty_rack(tmp_path_factory):
    """Return four booted blades: 1 healthy, 2 without sshd, 3 with a full disk, 4 with an undervoltage flag.

    The fourth has Debian 13.
    """
    box = RackHome(tmp_path_factory.mktemp("faulty"))
    faults = ("unreachable", "disk_full", "undervoltage")
    lines = [f"  blades-poc/{slot}: {fault}\n" for slot, fault in enumerate(faults, start=2)]
    try:
        box.status = box.up("systems: {blades-poc/4: debian-13}\nfaults:\n" + "".join(lines))
        yield box
    finally:
        box.down()


@pytest.fixture(scope="session")
def make_box():
    """Return the class, for racks shared by a module."""
    return RackHome


@pytest.fixture
def box(tmp_path):
    """Return an empty home for two hosts, removed afterwards."""
    box = RackHome(tmp_path / "home", slots=2)
    yield box
    box.down()

"""Three booted hosts for a whole campaign, and faults from outside: link, packets, keys, processes, disk."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

from faults.workspace import ROOT, Workspace

PLACES = {"poc-blade01": "blades-poc/1", "poc-blade02": "blades-poc/2", "poc-blade03": "blades-poc/3"}
SMALL_DISK = "poc-blade03"  # its root is a memory disk with a few MiB free
TABLE, HOOKS = "gpufleet_faults", ("input", "output")
FAULTS = f"faults:\n  {PLACES[SMALL_DISK]}: disk_small=8\n"


class Rack:
    """The hosts; each is named as its node is."""

    def __init__(self, workspace: Workspace) -> None:
        from gpufleet import fleet
        from gpufleet.rehearsal import rack
        from gpufleet.rehearsal.rack.faults import parse_faults

        self.home = workspace.folder / "rack"
        self.home.mkdir()
        file = workspace.folder / "racks" / "blades-poc.yaml"
        file.parent.mkdir()
        file.write_text(declaration())
        racks = [fleet.StackRack(name="blades-poc", rack=fleet.load_rack(file, file.parent))]
        self._world = SimpleNamespace(home=self.home)
        workspace.closing.callback(lambda: rack.stop_racks(self._world, lambda _line: None))
        hosts = rack.start_racks(self._world, racks, parse_faults(FAULTS, "campaign"), lambda _line: None)
        silent = [host.name for host in hosts if not host.ssh_answers]
        if silent:
            raise RuntimeError(f"hosts that do not answer: {silent}")
        self.addresses = json.loads((self.home / "addresses.json").read_text())
        self.labels = {name: self._label(name) for name in PLACES}

    def _label(self, name: str) -> str:
        """Return a host's namespace, which is also its link's name, by its address."""
        for line in _run("ip", "netns").splitlines():
            label = line.split()[0]
            if label.startswith("gf-") and self.address(name) in _run("ip", "-n", label, "-brief", "address"):
                return label
        raise RuntimeError(f"no namespace has {self.address(name)}")

    def address(self, name: str) -> str:
        return str(self.addresses[PLACES[name]])

    def cable(self, name: str, *, plugged: bool) -> None:
        """Pull a host's cable out or plug it in."""
        _run("ip", "link", "set", self.labels[name], "up" if plugged else "down")

    def slow(self, name: str, kbit: int) -> None:
        """Let a host's link carry so little each way that its packets wait for seconds."""
        queue = ("root", "tbf", "rate", f"{kbit}kbit", "burst", "4kb", "latency", "3000ms")
        _run("tc", "-n", self.labels[name], "qdisc", "replace", "dev", "eth0", *queue)
        _run("tc", "qdisc", "replace", "dev", self.labels[name], *queue)

    def lossy(self, name: str, percent: int) -> None:
        """Lose a share of a host's packets, both ways: by nftables, which works where the kernel has no netem."""
        rule = f"numgen random mod 100 < {percent} drop"
        chains = (f"chain {hook} {{\n type filter hook {hook} priority 0;\n {rule}\n }}\n" for hook in HOOKS)
        self._nft(name, f"table inet {TABLE} {{\n{''.join(chains)}}}\n")

    def _nft(self, name: str, text: str) -> None:
        command = ["ip", "netns", "exec", self.labels[name], "nft", "-f", "-"]
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)

    def run_inside(self, name: str, command: str) -> str:
        """Run a shell command in a host, without SSH."""
        return _run("nsenter", "-t", str(self.leader(name)), "-a", "sh", "-c", command)

    def leader(self, name: str) -> int:
        """Return the host's first process."""
        for pid in _run("ip", "netns", "pids", self.labels[name]).split():
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            if len(numbers) > 1 and numbers[-1] == "1":
                return int(pid)
        raise RuntimeError(f"{name} does not run")

    def processes(self, name: str, pattern: str) -> dict[int, str]:
        """Return a host's processes with a word in their command line, by their pid on this machine."""
        command_lines = {}
        for pid in _run("ip", "netns", "pids", self.labels[name]).split():
            try:
                text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if pattern in text:
                command_lines[int(pid)] = text
        return command_lines

    def heal(self) -> None:
        """Undo every fault of the links."""
        for name, label in self.labels.items():
            self.cable(name, plugged=True)
            for where, device in ((("-n", label), "eth0"), ((), label)):
                command = ["tc", *where, "qdisc", "delete", "dev", device, "root"]
                subprocess.run(command, check=False, capture_output=True)
            if shutil.which("nft"):
                self._nft(name, f"table inet {TABLE}\ndelete table inet {TABLE}\n")


def declaration() -> str:
    """Return the shipped rack file, cut to three slots."""
    text = (ROOT / "inventory" / "blades-poc.yaml").read_text()
    return text.replace("poc-blade[01-04]", "poc-blade[01-03]")


def start_rack(workspace: Workspace) -> Rack:
    """Boot the hosts once for a campaign."""
    rack: Rack = workspace.cached("rack", lambda: Rack(workspace))
    return rack


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()[:200]}")
    return result.stdout

"""A Receptor mesh on this machine for tests: real nodes with mutual TLS and signed work, by the documented files."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
EXAMPLES = PROJECT / "docs" / "examples" / "receptor"
MARK = "GPUFLEET_TEST_MESH"
START_SECONDS = 60


def find_receptor():
    """Return the receptor program on PATH or next to the project; None where there is none."""
    beside = PROJECT.parent / "shared" / "bin" / "receptor"
    return shutil.which("receptor") or (str(beside) if os.access(beside, os.X_OK) else None)


@dataclass
class ReceptorMesh:
    """One controller and execution nodes, each a receptor process that runs ansible-runner from this environment."""

    folder: Path
    nodes: tuple[str, ...]
    receptor: str = field(default_factory=lambda: find_receptor() or "receptor")
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)
    removed_lines: dict[str, str] = field(
        default_factory=dict
    )  # from the files of nodes that are set up wrongly

    @property
    def control_socket(self):
        return self.run_folder("controller") / "control.sock"

    def run_folder(self, name):
        """Return a node's /run/receptor: in memory, with a path that is short enough for a socket."""
        return self.memory / name

    def up(self):
        """Make a throw-away CA, start every node and wait until the controller has a route to each."""
        self.memory = Path(tempfile.mkdtemp(prefix="mesh-", dir="/dev/shm"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._create_authority()
        for name in ("controller", *self.nodes):
            self._write_configuration(name)
            self.start(name)
        self.wait_for_routes(self.nodes)

    def start(self, name):
        """Start one node as a service would: its environment names no key and no secret."""
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(self.folder / name),
            "LANG": "C.UTF-8",
            MARK: f"{self.folder}/{name}",
        }
        with (self.folder / name / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [self.receptor, "--config", str(self.folder / name / "receptor.yml")],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait_for_routes(self, names):
        """Wait until the controller has a route to every node."""
        deadline = time.monotonic() + START_SECONDS
        while not set(names) <= set(self.routed_nodes()):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.1)

    def routed_nodes(self):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            return sorted(self.command("status").get("RoutingTable") or ())
        return []

    def command(self, text):
        """Send one command to the controller's control service."""
        from receptorctl.socket_interface import ReceptorControl

        control = ReceptorControl(str(self.control_socket))
        try:
            return control.simple_command(text)
        finally:
            control.close()

    def units(self):
        """Return the controller's units of work."""
        return self.command("work list")

    def kill(self, name):
        """End a node as a power cut does: its receptor and all that it started, at once."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        for _ in range(5):
            for pid in self.marked_processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def marked_processes(self, name):
        """Return every process that the node started, itself included."""
        mark = f"{MARK}={self.folder}/{name}".encode()
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
        return pids

    def down(self):
        for name in list(self.processes):
            self.kill(name)
        for name in ("controller", *self.nodes):
            for pid in self.marked_processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if hasattr(self, "memory"):
            shutil.rmtree(self.memory, ignore_errors=True)

    def logs(self):
        return {
            name: (self.folder / name / "log").read_text()[-2000:] for name in ("controller", *self.nodes)
        }

    def _create_authority(self):
        """Create the CA with receptor's own commands, and the pair of keys that signs work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ca = self.folder / "ca"
        ca.mkdir()
        self._receptor(
            "--cert-init", "commonname=test mesh", "bits=2048", f"outcert={ca}/ca.crt", f"outkey={ca}/ca.key"
        )
        for name in ("controller", *self.nodes):
            tls = self.folder / name / "tls"
            tls.mkdir(parents=True)
            self._receptor(
                "--cert-makereq", "bits=2048", f"commonname={name}", f"nodeid={name}", f"dnsname={name}",
                "ipaddress=127.0.0.1", f"outreq={tls}/node.req", f"outkey={tls}/node.key",
            )  # fmt: skip
            self._receptor(
                "--cert-signreq", f"req={tls}/node.req", f"cacert={ca}/ca.crt", f"cakey={ca}/ca.key",
                f"outcert={tls}/node.crt", "verify=true",
            )  # fmt: skip
            shutil.copy(ca / "ca.crt", tls)
            signing = self.folder / name / "signing"
            signing.mkdir()
        private = self.folder / "controller" / "signing" / "private.pem"
        subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
        for name in self.nodes:
            public = self.folder / name / "signing" / "public.pem"
            subprocess.run(
                ["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True
            )

    def _receptor(self, *arguments):
        completed = subprocess.run([self.receptor, *arguments], capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def _write_configuration(self, name):
        """Write the documented file with this node's name, folders and port."""
        self.run_folder(name).mkdir(mode=0o700)
        text = (EXAMPLES / ("controller.yml" if name == "controller" else "node.yml")).read_text()
        for documented, here in (
            ("id: rack-7", f"id: {name}"),
            ("/etc/receptor", str(self.folder / name)),
            ("/run/receptor", str(self.run_folder(name))),
            ("address: controller:27199", f"address: 127.0.0.1:{self.port}"),
            ("port: 27199", f"port: {self.port}"),
            ("bindaddr: 0.0.0.0", "bindaddr: 127.0.0.1"),
        ):
            text = text.replace(documented, here)
        removed = self.removed_lines.get(name, "")
        assert removed in text
        (self.folder / name / "receptor.yml").write_text(text.replace(removed, ""))

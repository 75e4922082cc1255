"""Facts of many SSH hosts beside ``ansible -m setup`` with 50 forks, in one run; prints, judges nothing.

    python tests/benchmarks/bench_facts.py [HOSTS [ANSIBLE_HOSTS]]

One real sshd answers at an address of 127.0.0.0/8 for each host. Nodes and controller share this machine's processors,
so the ratio is that of the whole work, the nodes' part included. The curve is over the nodes asked at the same time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.nodes.model import utc_now
from gpufleet.operations import node_probe
from gpufleet.operations.node_probe import SshLogin
from gpufleet.remote import probe_hosts

PARALLEL = (1, 8, 16, 32, 64, 128)
FORKS = 50
SSHD = "/usr/sbin/sshd"


@contextlib.contextmanager
def run_sshd(folder):
    """Run an sshd of our own on a free port of every loopback address; give the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in ("host", "login"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 0.0.0.0\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/login.pub\n"
        "UsePAM no\nStrictModes no\nMaxStartups 1000:30:2000\nSubsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    # A mount of its own, so that logins do not run what this machine's root has in its bashrc.
    start = f"[ ! -e ~/.bashrc ] || mount --bind /dev/null ~/.bashrc; exec {SSHD} -D -f {folder}/config"
    server = subprocess.Popen(["unshare", "-m", "sh", "-c", start], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(timeout=10)


def measure_seconds(work):
    """Return the seconds that the work takes, and its answer."""
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer


def main():
    """Measure Ansible, then ours over the number of nodes asked at once, then ours with the registry."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    ansible_hosts = int(sys.argv[2]) if len(sys.argv) > 2 else hosts
    if os.geteuid() or not Path(SSHD).exists() or not shutil.which("ansible"):
        sys.exit("needs root, sshd and ansible")
    addresses = [f"127.0.{1 + i // 250}.{1 + i % 250}" for i in range(hosts)]
    with tempfile.TemporaryDirectory(prefix="gpufleet-facts-") as name, run_sshd(Path(name)) as port:
        folder = Path(name)
        key = (folder / "host.pub").read_text().split()
        (folder / "known").write_text("".join(f"[{a}]:{port} {key[0]} {key[1]}\n" for a in addresses))
        login = SshLogin("root", folder / "login", (folder / "known",))
        theirs, _ = measure_seconds(lambda: run_ansible(folder, port, addresses[:ansible_hosts]))
        print(f"ansible -m setup, {FORKS} forks {ansible_hosts:6} hosts {theirs:7.2f} s")
        for parallel in PARALLEL:
            ours, answers = measure_seconds(
                lambda parallel=parallel: probe_hosts(
                    addresses, user=login.user, key=login.key, known_hosts=login.known_hosts, port=port,
                    max_parallel=parallel, timeout=60,
                )
            )  # fmt: skip
            answered = sum(hasattr(answer, "facts") for answer in answers.values())
            ratio = (theirs / ansible_hosts) / (ours / hosts)
            print(
                f"gpufleet, {parallel:4} at once {answered:10} hosts {ours:7.2f} s   {ratio:5.1f} times faster"
            )
        measure_with_registry(folder, port, addresses, login)


def run_ansible(folder, port, addresses):
    """Gather facts with Ansible from the same hosts."""
    lines = [
        f"{a} ansible_port={port} ansible_user=root ansible_ssh_private_key_file={folder}/login"
        for a in addresses
    ]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    environment = os.environ | {
        "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={folder}/known",
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_LOCALHOST_WARNING": "False",
    }
    command = ["ansible", "all", "-i", folder / "hosts", "-m", "setup", "-f", str(FORKS), "-o"]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=folder, timeout=1800, check=False
    )
    answered = sum("SUCCESS" in line[:200] for line in run.stdout.splitlines())
    if answered != len(addresses):
        sys.exit(
            f"ansible reached {answered} of {len(addresses)} hosts: {run.stdout[:300]} {run.stderr[-300:]}"
        )


def measure_with_registry(folder, port, addresses, login):
    """Measure the verb's work: ask, merge and keep the answers."""
    at = utc_now()
    observations = [
        NodeObservation("rack:bench", f"node{i:03}", NodeIdentity(rack="bench", slot=str(i)),
                        declared={"kind": "gpu_server", "address": address}, observed_at=at)
        for i, address in enumerate(addresses)
    ]  # fmt: skip
    usual = node_probe.remote.probe_hosts
    node_probe.remote.probe_hosts = lambda *given, **options: usual(*given, port=port, **options)
    with Registry(f"sqlite:///{folder}/registry.db") as registry:
        registry.apply_source_report(SourceReport("rack:bench", at, observations))
        seconds, report = measure_seconds(
            lambda: node_probe.probe_nodes(registry, login, timeout=60, max_parallel=64)
        )
    print(f"with the registry {len(report.answered):15} hosts {seconds:7.2f} s")


if __name__ == "__main__":
    main()

"""Faults of hosts: unreachable, slow, lossy, flapping, wrong keys, killed agent, full disk."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess

from faults.kinds.base import Kind
from faults.rack import PLACES, SMALL_DISK, declaration, start_rack
from faults.recordings import REPORT, write_end
from faults.workspace import Running

HOSTS = tuple(PLACES)
KEY = "/etc/ssh/ssh_host_ed25519_key"


class HostKind(Kind):
    """A play on booted hosts, one of them faulty; after the repair, the same command completes all hosts."""

    needs = "hosts"
    play = "commission"
    victims = HOSTS

    def setup(self) -> None:
        self.rack = start_rack(self.run.workspace)
        self.run.closing.callback(self.rack.heal)
        self.victim = self.rng.choice(self.victims)
        self.run.notes.append(self.victim)
        (self.run.project / "inventory" / "blades-poc.yaml").write_text(declaration())
        self.run.home.mkdir()
        self.known_hosts = self.run.home / "known_hosts"
        shutil.copy(self.rack.home / "ssh" / "known_hosts", self.known_hosts)
        self.run.env |= {
            "GPUFLEET_REHEARSAL": "poc",
            "GPUFLEET_ADDRESS_BOOK": str(self.rack.home / "addresses.json"),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.rack.home / "ssh" / "id_ed25519"),
            "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={self.known_hosts}",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.run.folder / "c"),
            # No connection of an earlier moment survives into the fault.
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o StrictHostKeyChecking=yes -o PreferredAuthentications=publickey"
            " -o ConnectTimeout=6 -o ServerAliveInterval=3 -o ServerAliveCountMax=3",
        }
        self.run.succeed("nodes", "sync", "-s", "poc")
        self.command = ("configure", "--play", self.play, "--limit", ",".join(self.limit()))

    def limit(self) -> tuple[str, ...]:
        """Return the hosts of the run."""
        return HOSTS

    def act(self) -> None:
        self.before_run()
        running = self.run.start(*self.command)
        self.during(running)
        self.result = running.wait()
        self.run.expect(self.result.code in (0, 1, 3), f"unexpected: {self.result}")

    def before_run(self) -> None:
        """Inject the fault before the run."""

    def during(self, running: Running) -> None:
        """Inject the fault during the run."""

    def check(self) -> None:
        seen = self.evidence()
        for name in HOSTS:
            if name != self.victim and name in self.limit():
                self.run.expect(self.is_well(seen, name), f"{name} suffered for {self.victim}: {self.result}")
        if self.result.code == 0:
            self.run.expect(self.is_well(seen, self.victim), "exit 0 although a host was not done")
        self.heal()
        self.run.succeed(*self.command)
        seen = self.evidence()
        for name in self.limit():
            self.run.expect(self.is_well(seen, name), f"{name} afterwards: {seen.node(name)}")

    def is_well(self, seen: object, name: str) -> bool:
        """Return True if the run's work on a host is in the registry."""
        node = seen.node(name)  # type: ignore[attr-defined]
        return node.get("state") == "commissioning" and node.get("reachable") == 1

    def heal(self) -> None:
        self.rack.heal()

    def check_silence(self) -> None:
        """Check that an unreachable host is recorded as unreachable with a reason."""
        node = self.evidence().node(self.victim)
        self.run.expect(node["reachable"] == 0 and node["reachable_detail"], f"silence is not noted: {node}")
        self.run.expect(node["state"] == "expected", f"{self.victim} is {node['state']} unseen")
        self.run.expect(self.result.code == 1, f"a silent host and: {self.result}")


class UnreachableHost(HostKind):
    """A host's cable is unplugged, from the start or at a random moment."""

    name = "unreachable-host"

    def before_run(self) -> None:
        self.early = self.rng.random() < 0.5
        if self.early:
            self.rack.cable(self.victim, plugged=False)

    def during(self, running: Running) -> None:
        if not self.early:
            self.run.pause(self.rng.uniform(0, 8), running)
            self.rack.cable(self.victim, plugged=False)

    def check(self) -> None:
        if self.early:
            self.check_silence()
        super().check()


class SlowHost(HostKind):
    """A host's link has little bandwidth, so its packets wait."""

    name = "slow-host"

    def before_run(self) -> None:
        kbit = self.rng.randrange(48, 400)
        self.run.notes.append(f"{kbit} kbit/s")
        self.rack.slow(self.victim, kbit)


class LossyHost(HostKind):
    """A host loses packets both ways."""

    name = "lossy-host"
    programs = ("nft",)

    def before_run(self) -> None:
        loss = self.rng.randrange(2, 30)
        self.run.notes.append(f"{loss} % lost")
        self.rack.lossy(self.victim, loss)


class FlappingHost(HostKind):
    """A host's link repeatedly goes down and up."""

    name = "flapping-host"

    def during(self, running: Running) -> None:
        times = 0
        while running.is_alive:
            self.rack.cable(self.victim, plugged=False)
            self.run.pause(self.rng.uniform(0.1, 1.5), running)
            self.rack.cable(self.victim, plugged=True)
            self.run.pause(self.rng.uniform(0.3, 2.5), running)
            times += 1
        self.run.notes.append(f"{times} times")


class WrongHostKey(HostKind):
    """The known-hosts file has another key for a host, or none: the run must not change the host."""

    name = "wrong-host-key"

    def before_run(self) -> None:
        lines = self.known_hosts.read_text().splitlines()
        address = self.rack.address(self.victim)
        host_lines = [line for line in lines if address in line.split()[0]]
        self.run.expect(host_lines, "the rack wrote no key for the host")
        other = next(line for line in lines if address not in line.split()[0])
        wrong_keys = (
            [] if self.rng.random() < 0.5 else [" ".join([host_lines[0].split()[0], *other.split()[1:]])]
        )
        self.known_hosts.write_text(
            "\n".join([line for line in lines if line not in host_lines] + wrong_keys) + "\n"
        )

    def check(self) -> None:
        self.check_silence()
        super().check()

    def heal(self) -> None:
        super().heal()
        shutil.copy(self.rack.home / "ssh" / "known_hosts", self.known_hosts)


class ChangedHostKey(HostKind):
    """A host presents a changed key: the run must not change it until its key is known again."""

    name = "changed-host-key"

    def before_run(self) -> None:
        change = (
            f"cp {KEY} /run/kept-key; rm {KEY}; ssh-keygen -q -t ed25519 -N '' -f {KEY}; systemctl reload ssh"
        )
        self.run.closing.callback(self.restore)
        self.rack.run_inside(self.victim, change)

    def restore(self) -> None:
        self.rack.run_inside(
            self.victim,
            f"test ! -e /run/kept-key || {{ cp /run/kept-key {KEY} && chmod 600 {KEY} &&"
            f" ssh-keygen -y -f {KEY} > {KEY}.pub && systemctl reload ssh && rm /run/kept-key; }}",
        )

    def check(self) -> None:
        self.check_silence()
        super().check()

    def heal(self) -> None:
        super().heal()
        self.restore()


class KillHostAgent(HostKind):
    """SIGKILL of the burn-in agent on its host: no partial verdict, no remaining load, the next run measures."""

    name = "kill-host-agent"
    play = "burn_in"
    victims = HOSTS[:2]

    def limit(self) -> tuple[str, ...]:
        return (self.victim,)

    def setup(self) -> None:
        super().setup()
        self.run.succeed("nodes", "ingest", self.configured())

    def configured(self) -> object:
        """Write a run in which the victim was configured, which burn-in asks for."""
        folder = self.run.home / "artifacts" / "configured"
        (folder / "job_events").mkdir(parents=True)
        report = {"node": self.victim, "event": "configured", "attempt": "", "facts": {}}
        moment = subprocess.run(["date", "-u", "-Ins"], capture_output=True, text=True, check=True)
        when = moment.stdout.strip().replace(",", ".")
        data = {
            "host": self.victim,
            "task_action": REPORT,
            "start": when,
            "end": when,
            "res": {"gpufleet": report},
        }
        event = {"event": "runner_on_ok", "uuid": "u1", "created": when, "event_data": data}
        (folder / "job_events" / "1-u1.json").write_text(json.dumps(event))
        write_end(folder, [self.victim], 2)
        return folder

    def during(self, running: Running) -> None:
        self.run.until(lambda: self.agents() or not running.is_alive)
        process_ids = sorted(self.agents())
        # A short agent on a quick host: each look may be the one, so that most runs kill a living agent.
        while (
            process_ids
            and running.is_alive
            and self.rng.random() > 0.15
            and (process_ids_later := sorted(self.agents()))
        ):
            process_ids = process_ids_later
        self.struck = (
            process_ids[:1]
            if self.rng.random() < 0.6
            else [self.rng.choice(process_ids)]
            if process_ids
            else []
        )
        for pid in self.struck:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run.notes.append(f"killed {len(self.struck)} of {len(process_ids)}")

    def agents(self) -> dict[int, str]:
        return self.rack.processes(self.victim, "agent.pyz")

    def check(self) -> None:
        self.run.expect(self.run.until(lambda: not self.agents(), 30), f"left on the host: {self.agents()}")
        super().check()
        self.run.expect(not self.agents(), f"left on the host at the end: {self.agents()}")

    def is_well(self, seen: object, name: str) -> bool:
        return bool(seen.node(name).get("state") == "ready")  # type: ignore[attr-defined]


class FullHostDisk(HostKind):
    """A host's root file system is full: the other hosts complete, it is reported, and it completes with space."""

    name = "full-host-disk"
    victims = (SMALL_DISK,)

    def before_run(self) -> None:
        remaining_mib = self.rng.choice([0, 0, self.rng.randrange(64)])
        self.run.notes.append(f"{remaining_mib} KiB free")
        fill = f"dd if=/dev/zero of=/ballast bs=64k 2>/dev/null; truncate -s -{remaining_mib}K /ballast; sync"
        self.run.closing.callback(self.empty)
        self.rack.run_inside(self.victim, f"sh -c {shlex.quote(fill)} || true")

    def empty(self) -> None:
        self.rack.run_inside(self.victim, "rm -f /ballast")

    def heal(self) -> None:
        super().heal()
        self.empty()

"""SIGKILL in the middle of playbook runs: of `gpufleet configure`, ansible-runner, ansible-playbook, any of theirs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from faults.data.recorded_agent import serial_of
from faults.kinds.base import Kind
from faults.recordings import BASE
from faults.workspace import Running

NODES = ["blade01", "blade02"]
CONFIGURE = ("configure", "--play", "faults", "--limit", ",".join(NODES))
ATTEMPT = "fault-1"


class RunKind(Kind):
    """A run of the campaign's play over three nodes; afterwards the same run again makes them ready."""

    def setup(self) -> None:
        self.start_registry()
        serials = json.dumps({name: serial_of(name) for name in NODES})
        self.run.env |= {"FAULT_ATTEMPT": ATTEMPT, "FAULT_BASE": str(BASE), "FAULT_SERIALS": serials}

    def act(self) -> None:
        self.before = self.evidence()
        total_seconds = self.measure_seconds("configure", *CONFIGURE)
        running = self.run.start(*CONFIGURE)
        self.strike(running, total_seconds)
        self.result = running.wait()

    def strike(self, running: Running, total_seconds: float) -> None:
        """Inject the fault."""
        self.run.interrupt(running, self.run.home, total_seconds)

    def check(self) -> None:
        self.run.until(lambda: not self.run.processes(), 20)
        after = self.evidence()
        for artifacts in (self.run.home / "artifacts").glob("*"):
            for node, event in acknowledged(artifacts):
                self.run.expect(has_event(after, node, event), f"acknowledged and lost: {event} of {node}")
        self.converge()

    def converge(self) -> None:
        """Type the same command again: every node is ready, the others are as they were."""
        self.run.env["FAULT_ATTEMPT"] = f"{ATTEMPT}-again"
        self.run.succeed(*CONFIGURE)
        after = self.evidence()
        for name in NODES:
            node = after.node(name)
            self.run.expect(
                (node["state"], node["verdict"]) == ("ready", "healthy"), f"{name} is {node['state']}"
            )
        for name in set(self.before.names.values()) - set(NODES):
            self.run.expect(
                self.before.rows_by_table(name) == after.rows_by_table(name), f"{name} was touched"
            )


def acknowledged(artifacts: Path) -> Iterator[tuple[str, str]]:
    """Yield node and event of each report whose task was followed by another one: every callback had it then."""
    events = []
    for path in (artifacts / "job_events").glob("*.json"):
        with suppress(ValueError, OSError):  # the run was killed while it wrote this one
            events.append((int(path.name.partition("-")[0]), json.loads(path.read_text())))
    events.sort(key=lambda pair: pair[0])
    kinds = [event.get("event") for _, event in events]
    later = [n for n, kind in enumerate(kinds) if kind in ("playbook_on_task_start", "playbook_on_stats")]
    for number, (_, event) in enumerate(events):
        data = event.get("event_data") or {}
        report = (data.get("res") or {}).get("gpufleet")
        if report and later and number < later[-1]:
            yield data["host"], report["event"]


def has_event(seen: Any, node: str, event: str) -> bool:
    """Return True if the registry has a run's event of a node."""
    if event == "burn_in":
        return bool(seen.rows_of("result", node))
    if event == "commissioned":
        return seen.node(node)["serial"] is not None
    return any(row["key"] == "observed.configured" for row in seen.rows_of("observation", node))


class KillConfigure(RunKind):
    """SIGKILL of ``gpufleet configure``: Ansible must stop with it."""

    name = "kill-configure"


class KillAnsiblePlaybook(RunKind):
    """SIGKILL of ansible-playbook under ``gpufleet configure``, which reports it and does not hang."""

    name = "kill-ansible-playbook"
    program = "ansible-playbook"

    def strike(self, running: Running, total_seconds: float) -> None:
        """Kill Ansible's main process, at any moment of its life."""
        self.run.until(lambda: self.victims() or not running.is_alive)
        self.run.pause(self.rng.uniform(0, total_seconds * 0.4), running)
        victims: list[int] = []
        while not victims and running.is_alive:
            victims = self.victims()
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run.notes.append(f"killed {len(victims)}")
        self.hit = bool(victims)

    def victims(self) -> list[int]:
        """Return the processes to kill: the playbook's own process."""
        return [pid for pid, parent in self.playbooks().items() if parent not in self.playbooks()][:1]

    def playbooks(self) -> dict[int, int]:
        """Return Ansible's processes and their parents; neither the listing before the run nor its supervisor."""
        process_ids = {}
        for pid, text in self.run.processes().items():
            arguments = text.split()
            if (
                len(arguments) > 1
                and Path(arguments[1]).name == self.program
                and "--list-hosts" not in arguments
            ):
                with suppress(OSError):
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    process_ids[pid] = int(stat[1])
        return process_ids

    def check(self) -> None:
        if self.hit and self.result.code == 0:
            self.run.expect(
                all(self.evidence().node(name)["state"] == "ready" for name in NODES),
                "a killed run ended in exit 0 without its work",
            )
        super().check()


class KillAnsibleWorker(KillAnsiblePlaybook):
    """SIGKILL of one of Ansible's forks: the run must end, and must not report success for lost work."""

    name = "kill-ansible-worker"

    def strike(self, running: Running, total_seconds: float) -> None:
        """Kill the fork that came as the drawn one, or the last: each lives for one task on one host only."""
        number, seen = self.rng.randint(1, 6), set[int]()
        while running.is_alive and len(seen) < number:
            seen |= self.forks()
        victims = self.victims()
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run.notes.append(f"killed {len(victims)}")
        self.hit = bool(victims)

    def victims(self) -> list[int]:
        forks = sorted(self.forks())
        return [self.rng.choice(forks)] if forks else []

    def forks(self) -> set[int]:
        """Return the playbook's own children of its name: one for each host that works on a task."""
        playbooks = self.playbooks()
        return {pid for pid, parent in playbooks.items() if parent in playbooks}


class KillAnything(KillAnsiblePlaybook):
    """SIGKILL of any one process of a run, modules and helpers included."""

    name = "kill-any-process"

    def victims(self) -> list[int]:
        processes = sorted(self.run.processes())
        return [self.rng.choice(processes)] if processes else []


class KillAnsibleRunner(RunKind):
    """SIGKILL of a plain ``ansible-runner run``, without `gpufleet configure`."""

    name = "kill-ansible-runner"
    command = ("run", ".", "--project-dir", "playbooks", "-p", "faults.yml", "--limit", ",".join(NODES))

    def act(self) -> None:
        self.before = self.evidence()
        total_seconds = self.measure_seconds("configure", *CONFIGURE)
        running = self.run.start(*self.command, program="ansible-runner")
        self.run.interrupt(running, self.run.home / "registry.db-wal", total_seconds)
        self.result = running.wait()


class TwoConfigures(RunKind):
    """Two operators configure the same nodes at once: both must end, and no node is half configured."""

    name = "two-configures"

    def act(self) -> None:
        self.before = self.evidence()
        first = self.run.start(*CONFIGURE, FAULT_ATTEMPT="first")
        self.run.pause(self.rng.uniform(0, 2.0))
        second = self.run.start(*CONFIGURE, FAULT_ATTEMPT="second")
        if self.rng.random() < 0.4:
            self.run.pause(self.rng.uniform(0, 4.0), first)
            first.kill()
        for running in (first, second):
            completed = running.wait()
            overtaken = completed.code == 1 and "another run started on this host meanwhile" in completed.out
            ended_well = completed.code in (0, -signal.SIGKILL) or overtaken
            self.run.expect(ended_well, f"an operator was refused: {completed}")

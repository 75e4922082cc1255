"""SIGKILL of rehearsals, the Pulumi engine and its providers, and a rehearsal's files damaged."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

from faults.kinds.base import Kind
from faults.kinds.damage import damage
from faults.workspace import CommandResult, Running

STACK = "poc"
REHEARSE = ("rehearse", "up", "-s", STACK, "--no-rack")
UP = f"pulumi up -s {STACK} --yes --skip-preview --suppress-progress"


class Rehearsal(Kind):
    """A rehearsal of a small stack without its racks; afterwards `up`, the build and `down` must work."""

    needs = "engine"
    leaves_registry = False
    stack = STACK

    def setup(self) -> None:
        self.run.env.pop("GPUFLEET_HOME")
        self.place = self.run.home / "rehearsal" / self.stack
        self.rehearse = ("rehearse", "up", "-s", self.stack, "--no-rack")
        self.up = f"pulumi up -s {self.stack} --yes --skip-preview --suppress-progress"

    def shell(self, command: str) -> Running:
        """Start a command in the rehearsal's environment, as a person has it."""
        lead = f'eval "$(gpufleet rehearse env -s {self.stack})" && exec '
        return self.run.start("-c", lead + command, program="bash")

    def resources(self) -> list[str]:
        """Return what the engine's own state file lists, read as JSON."""
        files = [path for path in self.run.home.rglob("stacks/*/*.json") if path.stem == self.stack]
        if not files:
            return []
        latest = json.loads(files[0].read_text())["checkpoint"].get("latest") or {}
        self.run.expect(not latest.get("pending_operations"), "operations are still pending")
        return sorted(resource["urn"] for resource in latest.get("resources") or [])

    def check(self) -> None:
        self.run.succeed(*self.rehearse)
        self.expect_ok(self.shell(self.up).wait())
        resources = self.resources()
        expected = self.run.workspace.cached(f"resources:{self.stack}", lambda: resources)
        self.run.expect(
            resources == expected and len(resources) > 1, f"{len(resources)} of {len(expected)} resources"
        )
        locks = list(self.run.home.rglob("locks/**/*.json"))
        self.run.expect(not locks, f"locks: {locks}")
        self.run.succeed("rehearse", "down", "-s", self.stack)
        leftovers = (
            [path.name for path in (self.run.home / "rehearsal").glob("*")] if self.run.home.exists() else []
        )
        self.run.expect(not leftovers, f"`rehearse down` left {leftovers}")

    def expect_ok(self, result: CommandResult) -> None:
        self.run.expect(result.code == 0, f"the same command again does not converge: {result}")


class KillRehearse(Rehearsal):
    """SIGKILL of ``gpufleet rehearse up``."""

    name = "kill-rehearse-up"

    def act(self) -> None:
        total_seconds = self.measure_seconds("rehearse", *self.rehearse)
        running = self.run.start(*self.rehearse)
        self.run.interrupt(running, self.run.home, total_seconds)
        running.wait()


class KillEngine(Rehearsal):
    """SIGKILL of the Pulumi engine while it builds."""

    name = "kill-engine"
    stack = "poc"

    def setup(self) -> None:
        if self.rng.random() < 0.2:
            self.stack = "dev"  # clouds too: slower by their SDKs
        super().setup()
        self.run.succeed(*self.rehearse)

    def act(self) -> None:
        running = self.shell(self.up)
        self.run.until(lambda: self.victims() or not running.is_alive)
        self.run.pause(self.rng.uniform(0, 3.0), running)
        self.run.until(lambda: self.victims() or not running.is_alive)
        victims = self.victims()
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.run.notes.append(f"killed {len(victims)}")
        result = running.wait()
        # The engine's last line is its duration: a signal after it comes too late to change the exit code.
        has_finished = "Duration:" in result.out
        self.run.expect(
            result.code != 0 or not victims or has_finished, f"a killed engine ended in success: {result}"
        )

    def victims(self) -> list[int]:
        """Return the engine's process."""
        processes = self.run.processes()
        return [pid for pid, text in processes.items() if self.is_victim(text)][:1]

    def is_victim(self, text: str) -> bool:
        return text.startswith("pulumi up ")


class KillProvider(KillEngine):
    """SIGKILL of a simulated cloud's provider while the engine builds with it."""

    name = "kill-provider"

    stack = "dev"

    def is_victim(self, text: str) -> bool:
        return "pulumi-resource-" in text or "rehearsal.providers" in text


class DamagedRehearsal(Rehearsal):
    """A rehearsal's files damaged: `up` repairs it, or refuses in one line; `down` and `up` always bring it back."""

    name = "damaged-rehearsal"

    def setup(self) -> None:
        super().setup()
        self.run.succeed(*self.rehearse)

    def act(self) -> None:
        files = [path for path in self.run.home.rglob("*.json") if path.stat().st_size]
        victim = self.rng.choice(sorted(files))
        self.run.notes.append(damage(victim, self.rng))
        for command in (
            ("rehearse", "status", "-s", self.stack),
            ("rehearse", "env", "-s", self.stack),
            self.rehearse,
        ):
            result = self.run.call(*command)
            self.run.expect(result.code in (0, 1, 2, 3), f"unexpected: {result}")
            self.run.expect(
                result.code == 0 or len(result.err.strip().splitlines()) <= 6, f"long: {result.err[:400]}"
            )
        if result.code:
            self.run.notes.append("refused")
            self.run.succeed("rehearse", "down", "-s", self.stack)

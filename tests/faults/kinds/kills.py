"""SIGKILL of commands that write the registry or the price store, at random moments."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from faults.kinds.base import SYNC, Kind
from faults.recordings import ATTEMPT, write_run
from faults.workspace import CASES

BLADES = [f"blade{slot:02}" for slot in range(1, 21)]


class KillSync(Kind):
    """``nodes sync``: each source is stored completely or not at all, and the next sync adds the rest."""

    name = "kill-sync"

    def setup(self) -> None:
        if self.rng.random() < 0.5:
            self.start_registry()

    def act(self) -> None:
        total_seconds = self.measure_seconds("sync", *SYNC)
        sync = self.run.start(*SYNC)
        self.run.interrupt(sync, self.run.home, total_seconds)
        sync.wait()

    def check(self) -> None:
        seen = self.evidence()
        answered = {row["name"] for row in seen["source"] if row["observed_at"]}
        present = {row["source"] for row in seen["presence"]}
        self.run.expect(present == answered, f"half a source: {sorted(present ^ answered)}")
        self.run.succeed(*SYNC)
        self.start_registry_digest()

    def start_registry_digest(self) -> None:
        """Compare with an undisturbed registry."""
        digest = self.evidence().digest()
        control = self.run.workspace.open("control", 0)
        type(self)(control).start_registry()
        control.close()
        expected = self.run.workspace.shared["digest:synced"]
        self.run.expect(digest == expected, "the registry differs from an undisturbed one")


class KillState(Kind):
    """``nodes state`` of twenty nodes: all move or none, and no other node is touched."""

    name = "kill-state"
    move = ("nodes", "state", "blade[01-20]", "discovered", "--reason", "fault campaign")

    def setup(self) -> None:
        self.start_registry()

    def act(self) -> None:
        self.before = self.evidence()
        total_seconds = self.measure_seconds("state", *self.move)
        command = self.run.start(*self.move)
        self.run.interrupt(command, self.run.home, total_seconds)
        self.result = command.wait()

    def check(self) -> None:
        after = self.evidence()
        moved = [name for name in BLADES if after.node(name)["state"] == "discovered"]
        self.run.expect(len(moved) in (0, 20), f"{len(moved)} of 20 nodes moved")
        for line in self.result.err.splitlines():
            name = line.partition(":")[0]
            self.run.expect(after.node(name)["state"] == "discovered", f"acknowledged and lost: {line}")
        for name in set(self.before.names.values()) - set(BLADES):
            self.run.expect(
                self.before.rows_by_table(name) == after.rows_by_table(name), f"{name} was touched"
            )
        second_result = self.run.call(*self.move)
        self.run.expect(second_result.code == (2 if moved else 0), f"again: {second_result}")
        states = {self.evidence().node(name)["state"] for name in BLADES}
        self.run.expect(states == {"discovered"}, f"states afterwards: {sorted(states)}")


class KillIngest(Kind):
    """``nodes ingest`` of a recorded run: the next ingest ends in the same state as an undisturbed one."""

    name = "kill-ingest"

    def setup(self) -> None:
        self.start_registry()
        self.nodes = BLADES[:8]
        self.artifacts = write_run(self.run.home / "artifacts" / "recorded", self.nodes)

    def act(self) -> None:
        self.before = self.evidence()
        total_seconds = self.measure_seconds("ingest", "nodes", "ingest", self.artifacts)
        command = self.run.start("nodes", "ingest", self.artifacts)
        self.run.interrupt(command, self.run.home, total_seconds)
        command.wait()

    def check(self) -> None:
        self.run.succeed("nodes", "ingest", self.artifacts)
        after = self.evidence()
        for name in self.nodes:
            self.run.expect(after.node(name)["state"] == "ready", f"{name}: {after.node(name)['state']}")
            results = [row["attempt"] for row in after.rows_of("result", name)]
            self.run.expect(results == [ATTEMPT], f"{name} has results {results}")
        for name in set(self.before.names.values()) - set(self.nodes):
            self.run.expect(
                self.before.rows_by_table(name) == after.rows_by_table(name), f"{name} was touched"
            )


class KillPriceImport(Kind):
    """``prices import``: prices are as before or all there, and the next import brings all."""

    name = "kill-price-import"
    leaves_registry = False
    FILE = CASES / "catalog" / "prices" / "skypilot-aws.csv"
    command = ("prices", "import", FILE, "--cloud", "aws", "--as-of", "2026-11-20", "--source", "faults")

    def act(self) -> None:
        total_seconds = self.measure_seconds("import", *self.command)
        running = self.run.start(*self.command)
        self.run.interrupt(running, self.run.home, total_seconds)
        self.result = running.wait()

    def check(self) -> None:
        self.run.expect(self.visible() in (0, self.expected()), f"{self.visible()} prices are visible")
        if self.result.code == 0:
            self.run.expect(self.visible() == self.expected(), "acknowledged and lost")
        self.run.succeed(*self.command)
        self.run.expect(self.visible() == self.expected(), f"{self.visible()} prices after the import")
        waiting = self._count("staged")
        self.run.expect(waiting == 0, f"{waiting} rows wait for a run that ended")

    def expected(self) -> int:
        """Return how many prices an undisturbed import brings."""

        def count() -> int:
            run = self.run.workspace.open("control", 0)
            control = type(self)(run)
            run.call(*self.command)
            visible = control.visible()
            run.close()
            return visible

        return int(self.run.workspace.cached("prices", count))

    def visible(self) -> int:
        return self._count("prices WHERE source = 'faults'")

    def _count(self, what: str) -> int:
        path = self.run.home / "prices.db"
        if not path.is_file():
            return 0
        with closing(sqlite3.connect(path)) as link:
            if not link.execute("SELECT 1 FROM sqlite_master WHERE name = 'prices'").fetchone():
                return 0
            return int(link.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


class KillCostDiff(Kind):
    """``cost diff --base``: it changes nothing, and what it unpacked for a moment does not stay."""

    name = "kill-cost-diff"
    command = ("cost", "diff", "-s", "poc", "--base", "HEAD", "--format", "json")

    def setup(self) -> None:
        git = ("-c", "user.name=f", "-c", "user.email=f@example.org")
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
            self.run.call(*git, *arguments, program="git")

    def act(self) -> None:
        total_seconds = self.measure_seconds("diff", *self.command)
        running = self.run.start(*self.command)
        self.run.interrupt(running, self.run.tmp, total_seconds)
        running.wait()

    def check(self) -> None:
        answer = self.run.succeed(*self.command)
        change = json.loads(answer.out)["change"]["usd_per_month"] if answer.code == 0 else None
        self.run.expect(change == 0, f"an unchanged stack costs {change} more")
        dirty = self.run.call("status", "--porcelain", program="git").out
        self.run.expect(not dirty, f"the project was changed: {dirty[:200]}")

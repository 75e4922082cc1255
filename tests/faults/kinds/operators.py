"""Two operators at once: syncs, and changes of the same nodes."""

from __future__ import annotations

import itertools

from faults.kinds.base import SYNC, Kind


class TwoSyncs(Kind):
    """Two ``nodes sync`` at once, on an empty registry or a known one; sometimes one is killed."""

    name = "two-syncs"

    def setup(self) -> None:
        if self.rng.random() < 0.5:
            self.start_registry()

    def act(self) -> None:
        first = self.run.start(*SYNC)
        self.run.pause(self.rng.uniform(0, 0.5), first)
        second = self.run.start(*(SYNC if self.rng.random() < 0.5 else ("nodes", "sync", "-s", "poc")))
        killed = self.rng.random() < 0.5
        if killed:
            self.run.pause(self.rng.uniform(0, 1.0), first)
            first.kill()
        for command in (first, second):
            result = command.wait()
            if not (killed and command is first):
                self.run.expect(result.code == 0, f"an operator was refused: {result}")

    def check(self) -> None:
        for _ in range(2):
            self.run.succeed(*SYNC)
        names = [row["name"] for row in self.evidence()["node"]]
        self.run.expect(len(names) == len(set(names)), "a node was registered twice")
        expected = set(self.prepared())
        self.run.expect(expected <= set(names), f"missing: {sorted(expected - set(names))}")

    def prepared(self) -> dict[str, object]:
        """Return the undisturbed registry's nodes."""
        control = self.run.workspace.open("control", 0)
        type(self).start_registry(type(self)(control))
        control.close()
        return dict(self.run.workspace.shared["digest:synced"])


class TwoChanges(Kind):
    """Many holds, moves and releases at once: each acknowledged one is in the history, in order."""

    name = "two-changes"

    def setup(self) -> None:
        self.start_registry()

    def act(self) -> None:
        number = itertools.count(1)
        changes = [
            ("nodes", "hold", "blade[01-10]", "operator", "--reason"),
            ("nodes", "state", "blade[05-08]", "discovered", "--reason"),
            ("nodes", "state", "blade[07-10]", "discovered", "--reason"),
            ("nodes", "hold", "blade[03-06]", "security", "--reason"),
            ("nodes", "release", "blade[01-10]", "operator", "--reason"),
        ]
        self.rng.shuffle(changes)
        self.started = []
        for change in changes[:4]:
            reason = f"operator {next(number)}"
            self.started.append((change, reason, self.run.start(*change, reason)))
            self.run.pause(self.rng.uniform(0, 0.2))
        if self.rng.random() < 0.5:
            self.run.pause(self.rng.uniform(0, 0.8))
            self.started[self.rng.randrange(4)][2].kill()

    def check(self) -> None:
        result = [(change, reason, running.wait()) for change, reason, running in self.started]
        after = self.evidence()
        for change, reason, change_result in result:
            self.run.expect(change_result.code in (0, 2, -9), f"unexpected: {change_result}")
            for line in change_result.err.splitlines() if change_result.code == 0 else ():
                name, _, what = line.partition(": ")
                noted = any(reason in row["reason"] for row in after.rows_of("history", name))
                nothing = "was not set" in what or "stands already" in what
                self.run.expect(noted or nothing, f"acknowledged and lost: {line} ({reason})")
            if change[1] == "state":
                self.check_move(after, change[2], reason, change_result.code)

    def check_move(self, after: object, names: str, reason: str, code: int) -> None:
        """Check that a move of several nodes happened to all of them or to none."""
        first, last = (int(text) for text in names[6:-1].split("-"))
        moved = [
            any(reason == move_reason for _, move_reason in after.moves(f"blade{slot:02}"))  # type: ignore[attr-defined]
            for slot in range(first, last + 1)
        ]
        self.run.expect(all(moved) or not any(moved), f"{names}: {sum(moved)} of {len(moved)} moved")
        self.run.expect(all(moved) or code != 0, f"{names}: printed success and did nothing")

"""Files cut off or corrupted: state, address book, registry, price store, a run's artifacts."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from faults.kinds.base import STATE, SYNC, Kind
from faults.kinds.kills import KillPriceImport
from faults.recordings import write_run

NODES = [f"blade{slot:02}" for slot in range(1, 7)]


def damage(path: Path, rng: random.Random) -> str:
    """Cut a file off, overwrite a part of it or empty it; return what was done."""
    data = bytearray(path.read_bytes())
    method = rng.choice(["cut", "overwrite", "empty", "garbage"])
    at = rng.randrange(len(data))
    if method == "cut":
        del data[at:]
    elif method == "overwrite":
        length = rng.randint(1, 400)
        data[at : at + length] = rng.randbytes(len(data[at : at + length]))
    elif method == "empty":
        data.clear()
    else:
        data = bytearray(rng.randbytes(rng.randint(1, 5000)))
    path.write_bytes(data)
    return f"{method} at {at} of {path.name}"


class DamagedState(Kind):
    """A damaged Pulumi state or address book: known nodes are kept, and the repaired file restores all."""

    name = "damaged-state"

    def setup(self) -> None:
        self.start_registry()
        self.state = self.run.folder / "state.json"
        self.book = self.run.folder / "book.json"
        shutil.copy(STATE, self.state)
        self.book.write_text(json.dumps({f"blades-1/{slot}": f"10.9.0.{slot}" for slot in range(1, 21)}))
        self.command = (
            "nodes",
            "sync",
            "-s",
            "production",
            "--state",
            self.state,
            "--address-book",
            self.book,
        )
        self.run.succeed(*self.command)

    def act(self) -> None:
        self.before = self.evidence()
        victim = self.rng.choice([self.state, self.book])
        self.good = victim.read_bytes()
        self.run.notes.append(damage(victim, self.rng))
        self.victim = victim
        self.result = self.run.call(*self.command)

    def check(self) -> None:
        after = self.evidence()
        changed = self.victim.read_bytes() != self.good
        if changed and not self._still_json():
            self.run.expect(self.result.code in (1, 2), f"damage was not reported: {self.result}")
            self.run.expect(self.before.digest() == after.digest(), "a damaged source changed nodes")
        self.run.expect(set(self.before.names) <= set(after.names), "a node was forgotten")
        self.victim.write_bytes(self.good)
        self.run.succeed(*self.command)
        self.run.expect(
            self.before.digest() == self.evidence().digest(), "the whole file does not bring all back"
        )

    def _still_json(self) -> bool:
        try:
            json.loads(self.victim.read_bytes())
        except ValueError:
            return False
        return True


class DamagedRegistry(Kind):
    """A damaged registry: an error with a remedy for every reader, never an empty fleet; nothing overwrites it."""

    name = "damaged-registry"
    leaves_registry = False

    def setup(self) -> None:
        self.start_registry()
        self.file = self.run.home / "registry.db"
        self.good = self.file.read_bytes()

    def act(self) -> None:
        rng = self.rng
        size = rng.choice([rng.randrange(1, 100), rng.randrange(100, len(self.good) // 2), 4096])
        data = bytearray(self.good)
        if rng.random() < 0.5:
            del data[size:]
        else:
            data[:size] = rng.randbytes(size)
        self.file.write_bytes(data)
        self.bad = bytes(data)
        self.run.notes.append(f"{size} bytes, {len(data)} left")
        inventory = ("-i", self.run.project / "inventory", "--list")
        self.result = [
            self.run.call("nodes", "list"),
            self.run.call(*SYNC),
            self.run.call(
                *inventory, program="ansible-inventory", cwd=self.run.folder, GPUFLEET_HOME=str(self.run.home)
            ),
        ]

    def check(self) -> None:
        listing, synced, inventory = self.result
        for output in (listing, synced):
            self.run.expect(output.code == 3, f"a damaged registry went unnoticed: {output}")
            self.run.expect(len(output.err.strip().splitlines()) <= 4, f"not one line: {output.err[:300]}")
        self.run.expect(inventory.code != 0, "Ansible took a damaged registry for an empty fleet")
        self.run.expect(self.file.read_bytes() == self.bad, "a damaged registry was written to")
        for path in self.run.home.glob("registry.db*"):
            path.unlink()
        self.file.write_bytes(self.good)
        self.run.succeed(*SYNC)


class DamagedPrices(KillPriceImport):
    """A damaged price store: one line and exit 3 or the embedded prices; a new store brings all again."""

    name = "damaged-prices"

    def setup(self) -> None:
        self.run.succeed(*self.command)

    def act(self) -> None:
        for extra in self.run.home.glob("prices.db-*"):
            extra.unlink()
        self.run.notes.append(damage(self.run.home / "prices.db", self.rng))
        for arguments in (("prices", "status"), ("prices", "--gpu", "h100"), self.command):
            result = self.run.call(*arguments)
            self.run.expect(result.code in (0, 1, 3), f"unexpected: {result}")
            self.run.expect(
                result.code == 0 or len(result.err.splitlines()) <= 4, f"not one line: {result.err[:300]}"
            )

    def check(self) -> None:
        for path in self.run.home.glob("prices.db*"):
            path.unlink()
        self.run.succeed(*self.command)
        self.run.expect(self.visible() == self.expected(), f"{self.visible()} prices after the import")


class DamagedArtifacts(Kind):
    """A run's artifacts damaged: complete events count, damaged ones do not, the repaired run completes it."""

    name = "damaged-artifacts"

    def setup(self) -> None:
        self.start_registry()
        self.artifacts = write_run(self.run.home / "artifacts" / "recorded", NODES)
        self.kept = self.run.folder / "kept"
        shutil.copytree(self.artifacts, self.kept)

    def act(self) -> None:
        events = sorted(
            (self.artifacts / "job_events").glob("*-u*.json"), key=lambda path: int(path.name.split("-")[0])
        )
        self.hit = set()
        for path in self.rng.sample(events, self.rng.randint(1, 4)):
            self.hit.add(NODES[events.index(path) // 3])
            if self.rng.random() < 0.3:
                path.unlink()
                self.run.notes.append(f"lost {path.name}")
            else:
                self.run.notes.append(damage(path, self.rng))
        self.result = self.run.call("nodes", "ingest", self.artifacts)

    def check(self) -> None:
        self.run.expect(self.result.code in (0, 1, 2), f"unexpected: {self.result}")
        after = self.evidence()
        for name in NODES:
            if name not in self.hit:
                self.run.expect(
                    after.node(name)["state"] == "ready", f"{name} was held up by another's damage"
                )
        self.run.succeed("nodes", "ingest", self.kept)
        after = self.evidence()
        for name in NODES:
            self.run.expect(
                after.node(name)["state"] in ("ready", "burn_in"), f"{name}: {after.node(name)['state']}"
            )
            if name not in self.hit:
                self.run.expect(after.node(name)["state"] == "ready", f"{name} lost its verdict")

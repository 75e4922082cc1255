"""The controller's disk full: the state folder on a small file system with a few free bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from faults.kinds.base import SYNC, Kind, prepare_registry
from faults.kinds.kills import KillPriceImport
from faults.recordings import write_run

NODES = [f"blade{slot:02}" for slot in range(1, 7)]
SIZE = 4 << 20


class FullDisk(Kind):
    """Commands on a full disk: one line and exit 3 or done; what was there stays; with space again, all succeeds."""

    name = "full-disk"
    needs = "hosts"  # mounting needs root

    def setup(self) -> None:
        self.mount_small_disk()
        self.start_registry()
        self.artifacts = write_run(self.run.folder / "recorded", NODES)
        self.commands = [
            ("nodes", "ingest", self.artifacts),
            ("nodes", "state", "blade[11-14]", "discovered", "--reason", "campaign"),
            SYNC,
            KillPriceImport.command,
        ]

    def act(self) -> None:
        self.before = self.evidence()
        ballast = self.run.home / "ballast"
        self.fill(ballast, self.rng.choice([0, 4096, self.rng.randrange(300_000)]))
        self.rng.shuffle(self.commands)
        for command in self.commands:
            result = self.run.call(*command)
            self.run.expect(result.code in (0, 1, 3), f"unexpected on a full disk: {result}")
            if result.code == 3:
                self.run.expect(
                    len(result.err.strip().splitlines()) <= 4, f"not one line: {result.err[:300]}"
                )
            if result.code == 0 and command[1] == "state":
                moved = all(self.evidence().node(f"blade{n}")["state"] == "discovered" for n in range(11, 15))
                self.run.expect(moved, "the move was acknowledged and lost")
        ballast.unlink()

    def mount_small_disk(self) -> None:
        """Mount a small file system on the state folder."""
        home = self.run.home
        home.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "gpufleet-faults", str(home)]
        subprocess.run(mount, check=True)
        self.run.closing.callback(subprocess.run, ["umount", "-l", str(home)], check=False)
        self.run.workspace.shared.setdefault("mounts", set()).add(str(home))

    def fill(self, path: Path, leave: int) -> None:
        """Leave so many bytes free."""
        free = os.statvfs(self.run.home)
        size = max(0, free.f_bavail * free.f_frsize - leave)
        path.write_bytes(b"\0" * size)
        self.run.notes.append(f"{leave} bytes free")

    def check(self) -> None:
        after = self.evidence()
        self.run.expect(set(self.before.names) <= set(after.names), "a node was lost")
        for command in self.commands:
            second_result = self.run.call(*command)
            moved = command[1] == "state" and second_result.code == 2
            self.run.expect(second_result.code == 0 or moved, f"with space again: {second_result}")
        after = self.evidence()
        for name in NODES:
            self.run.expect(after.node(name)["state"] == "ready", f"{name}: {after.node(name)['state']}")


class FullDiskInFirstSync(FullDisk):
    """A full disk during the first sync: a whole registry or none, and what to free; with space again, all succeeds."""

    name = "full-disk-first-sync"

    def setup(self) -> None:
        self.run.workspace.cached("registry:synced", lambda: prepare_registry(self.run.workspace, "synced"))
        self.mount_small_disk()

    def act(self) -> None:
        ballast = self.run.home / "ballast"
        self.fill(ballast, self.rng.randrange(0, 480_000, 4096))
        result = self.run.call(*SYNC)
        ballast.unlink()
        self.run.notes.append(f"exit {result.code}")
        said = result.code == 0 or (result.code == 3 and "KiB free: free " in result.err)
        self.run.expect(said, f"not said how much to free: {result}")
        names = {path.name for path in self.run.home.iterdir() if path.name.startswith(".")}
        self.run.expect(not names, f"a draft was left: {names}")

    def check(self) -> None:
        self.run.succeed(*SYNC)
        expected = self.run.workspace.shared["digest:synced"]
        self.run.expect(
            self.evidence().digest() == expected, "the next sync does not end as an undisturbed one"
        )

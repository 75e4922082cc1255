"""Clock jumps between commands, simulated with libfaketime: the real order must be kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from faults.kinds.base import SYNC, Kind
from faults.recordings import PROBE, node_events

NODE = "blade01"
OFFSETS = ("-40d", "-3d", "-26h", "-61m", "-90s", "+90s", "+2h", "+9d")
DRIVER = Path(__file__).resolve().parents[1] / "data" / "live_events.py"


class ClockJump(Kind):
    """The clock is set back and forth: a sync is never a silent no-op, a later verdict and silence count."""

    name = "clock-jump"
    programs = ("faketime",)

    def setup(self) -> None:
        self.book = self.run.folder / "book.json"
        self.sync = (*SYNC, "--address-book", self.book)
        self.sync_addresses(0, self.rng.choice(OFFSETS))

    def sync_addresses(self, number: int, offset: str) -> None:
        """Sync with addresses of this number, the clock so far off."""
        self.book.write_text(
            json.dumps({f"blades-1/{slot}": f"10.9.{number}.{slot}" for slot in range(1, 21)})
        )
        result = self.run.call("-f", offset, "gpufleet", *self.sync, program="faketime")
        self.run.expect(result.code == 0, f"sync at {offset}: {result}")
        self.run.notes.append(f"sync {offset}")
        address = self.evidence().node(NODE).get("address")
        is_reported = "older" in result.err or "clock" in result.err
        self.run.expect(
            address == f"10.9.{number}.1" or is_reported,
            f"sync at {offset} silently changed nothing: {address}",
        )

    def report(self, outcome: str, attempt: str = "") -> None:
        """Let the node's run happen now, with the clock off; its events reach the registry as they come."""
        offset = self.rng.choice(OFFSETS)
        self.run.notes.append(f"{attempt or outcome} {offset}")
        silent = [(NODE, "unreachable", PROBE, {"msg": "timed out", "unreachable": True})]
        events = [
            (NODE, "ok", action, {"gpufleet": payload}) for action, payload in node_events(NODE, attempt)
        ]
        file = self.run.folder / "events.json"
        file.write_text(json.dumps(silent if outcome == "unreachable" else events))
        result = self.run.call("-f", offset, sys.executable, DRIVER, file, program="faketime")
        self.run.expect(result.code == 0, f"{outcome} at {offset}: {result}")

    def act(self) -> None:
        for number in range(1, 3):
            self.sync_addresses(number, self.rng.choice(OFFSETS))
        self.report("healthy", "first")
        self.run.expect(self.evidence().node(NODE)["state"] == "ready", "the first verdict was ignored")
        self.report("unreachable")
        self.run.expect(self.evidence().node(NODE)["reachable"] == 0, "later silence was ignored")
        self.report("healthy", "second")
        seen = self.evidence()
        results = {row["attempt"] for row in seen.rows_of("result", NODE)}
        self.run.expect("second" in results, "a later verdict was ignored")
        self.run.expect(seen.node(NODE)["reachable"] == 1, "a later answer was ignored")

    def check(self) -> None:
        self.run.succeed(*SYNC)

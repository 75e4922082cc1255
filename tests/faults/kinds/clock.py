"""The clock jumps between commands, by libfaketime: what is later in truth counts as later."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from faults.kinds.base import STATE, SYNC, Kind
from faults.recordings import write_run

NODE = "blade01"
OFFSETS = ("-40d", "-3d", "-26h", "-61m", "-90s", "+90s", "+2h", "+9d")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
        ended = self.run.call("-f", offset, "gpufleet", *self.sync, program="faketime")
        self.run.expect(ended.code == 0, f"sync at {offset}: {ended}")
        self.run.notes.append(f"sync {offset}")
        address = self.evidence().node(NODE).get("address")
        told = "older" in ended.err or "clock" in ended.err
        self.run.expect(
            address == f"10.9.{number}.1" or told, f"sync at {offset} silently changed nothing: {address}"
        )

    def ingest(self, attempt: str, offset: str, outcome: str) -> None:
        """Ingest a run that happened with the clock so far off."""
        seconds = int(offset[1:-1]) * UNITS[offset[-1]] * (1 if offset[0] == "+" else -1)
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        folder = write_run(self.run.home / "artifacts" / attempt, [NODE], attempt, moment)
        if outcome == "unreachable":
            self.silence(folder, moment)
        ended = self.run.call("-f", offset, "gpufleet", "nodes", "ingest", folder, program="faketime")
        self.run.expect(ended.code == 0, f"ingest at {offset}: {ended}")
        self.run.notes.append(f"{outcome} {offset}")

    def silence(self, folder: object, moment: datetime) -> None:
        """Make the run's only event one of a host that does not answer."""
        events = folder / "job_events"  # type: ignore[operator]
        for path in events.iterdir():
            path.unlink()
        data = {"host": NODE, "task_action": "gpufleet.fleet.probe", "start": moment.isoformat()}
        data |= {"end": moment.isoformat(), "res": {"msg": "timed out", "unreachable": True}}
        event = {
            "event": "runner_on_unreachable",
            "uuid": "u1",
            "created": moment.isoformat(),
            "event_data": data,
        }
        (events / "1-u1.json").write_text(json.dumps(event))

    def act(self) -> None:
        for number in range(1, 3):
            self.sync_addresses(number, self.rng.choice(OFFSETS))
        self.ingest("first", self.rng.choice(OFFSETS[4:]), "healthy")
        self.run.expect(self.evidence().node(NODE)["state"] == "ready", "the first verdict was ignored")
        self.ingest("silent", self.rng.choice(OFFSETS), "unreachable")
        seen = self.evidence().node(NODE)["reachable"]
        self.run.expect(seen in (0, False), "later silence was ignored")
        self.ingest("second", self.rng.choice(OFFSETS), "healthy")
        results = {row["attempt"] for row in self.evidence().rows_of("result", NODE)}
        self.run.expect("second" in results, "a later verdict was ignored")

    def check(self) -> None:
        self.run.succeed(*SYNC)
        self.run.expect(STATE.is_file(), "the recorded state is there")

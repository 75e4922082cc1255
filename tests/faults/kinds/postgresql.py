"""PostgreSQL restarts or crashes during commands."""

from __future__ import annotations

from faults.kinds.base import SYNC, Kind
from faults.postgres import Server
from faults.recordings import ATTEMPT, write_run
from faults.workspace import Workspace

NODES = [f"blade{slot:02}" for slot in range(1, 7)]


class PostgresRestart(Kind):
    """Commands meet a restart or a crash of the database: one line, exit 3, and nothing acknowledged is lost."""

    name = "postgres-restart"
    needs = "postgresql"

    def setup(self) -> None:
        self.server: Server = self.run.workspace.cached("postgres", lambda: _server(self.run.workspace))
        name = f"r{self.run.seed}x{self.rng.randrange(10**9)}"
        template = self.run.workspace.cached("postgres:template", self.prepare)
        self.run.env["GPUFLEET_DATABASE_URL"] = self.server.database(name, template)
        self.artifacts = write_run(self.run.home / "artifacts" / "recorded", NODES)

    def prepare(self) -> str:
        """Make a synced database to copy."""
        url = self.server.database("prepared")
        run = self.run.workspace.open("prepared", 0)
        run.env["GPUFLEET_DATABASE_URL"] = url
        run.call(*SYNC)
        run.close()
        return "prepared"

    def act(self) -> None:
        commands = [
            ("nodes", "ingest", self.artifacts),
            ("nodes", "state", "blade[11-14]", "discovered", "--reason", "campaign"),
            SYNC,
        ]
        running = [self.run.start(*command) for command in commands]
        self.run.pause(self.rng.uniform(0.2, 2.0))
        self.server.stop(self.rng.choice(["fast", "immediate"]))
        self.run.pause(self.rng.uniform(0, 0.5))
        self.server.start()
        self.result = [process.wait() for process in running]

    def check(self) -> None:
        after, (ingest, state, _) = self.evidence(), self.result
        for result in self.result:
            self.run.expect(result.code in (0, 1, 3), f"unexpected: {result}")
        if ingest.code == 0:
            self.run.expect(all(after.rows_of("result", name) for name in NODES), "ingest lost a result")
        moved = [after.node(f"blade{slot}")["state"] == "discovered" for slot in range(11, 15)]
        self.run.expect(all(moved) or not any(moved), f"{sum(moved)} of 4 nodes moved")
        self.run.expect(all(moved) or state.code != 0, "the move was acknowledged and lost")
        self.run.succeed("nodes", "ingest", self.artifacts)
        self.run.succeed(*SYNC)
        after = self.evidence()
        for name in NODES:
            self.run.expect(after.node(name)["state"] == "ready", f"{name}: {after.node(name)['state']}")
            results = [row["attempt"] for row in after.rows_of("result", name)]
            self.run.expect(results == [ATTEMPT], f"{name} has results {results}")


def _server(workspace: Workspace) -> Server:
    server = Server()
    workspace.closing.callback(server.close)
    return server

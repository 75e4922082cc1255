"""The base of all kinds of fault: the order of a run, and its invariants."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from faults import evidence
from faults.evidence import Evidence
from faults.workspace import CASES, Run, Workspace, leftovers

STATE = CASES / "nodes" / "state-production.json"
SYNC = ("nodes", "sync", "-s", "production", "--state", STATE)
GRACE_SECONDS = 20


class Kind:
    """One kind of fault.

    ``needs`` names what a machine must have for it: nothing, ``engine``, ``hosts`` or ``postgresql``; ``programs``
    must be on PATH.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    programs: ClassVar[tuple[str, ...]] = ()
    leaves_registry: ClassVar[bool] = True  # False where the fault is in the registry file itself

    def __init__(self, run: Run) -> None:
        self.run, self.rng = run, run.rng

    def setup(self) -> None:
        """Prepare what the fault will hit."""

    def act(self) -> None:
        """Execute the command, with the fault at a random moment."""

    def check(self) -> None:
        """Check what this kind promises; the common invariants are checked for every kind."""

    def execute(self) -> None:
        """Execute the run, then check the invariants."""
        self.setup()
        self.act()
        self.check_registry("after the fault")
        self.check()
        self.check_registry("at the end")
        run = self.run
        run.until(lambda: not list(leftovers(run)), GRACE_SECONDS)
        for leftover in leftovers(run):
            run.violate(f"left behind: {leftover}")

    def check_registry(self, when: str) -> None:
        """Check the registry's own invariants with SQL."""
        if not self.leaves_registry:
            return
        for fault in (*evidence.integrity(self.run.database), *self.evidence().faults()):
            self.run.violate(f"{when}: {fault}")

    def evidence(self) -> Evidence:
        """Return the content of the registry."""
        return Evidence(self.run.database)

    # Registries that many kinds start from, made once a campaign

    def start_registry(self, name: str = "synced") -> None:
        """Put a prepared registry into the run's state folder."""
        prepared = self.run.workspace.cached(
            f"registry:{name}", lambda: prepare_registry(self.run.workspace, name)
        )
        self.run.home.mkdir(parents=True, exist_ok=True)
        shutil.copy(prepared, self.run.home / "registry.db")

    def measure_seconds(self, name: str, *arguments: object) -> float:
        """Return how long a command takes undisturbed, measured once in a separate run."""

        def command() -> None:
            run = self.run.workspace.open(f"measured-{type(self).name}", 0)
            type(self)(run).setup()
            run.call(*arguments)
            run.close()

        return self.run.workspace.seconds(name, command)


def prepare_registry(workspace: Workspace, name: str) -> Path:
    """Make a registry by undisturbed commands: ``synced`` knows the production stack's racks and clouds."""
    run = workspace.open("prepared", 0)
    result = run.call(*SYNC)
    if result.code:
        raise RuntimeError(f"cannot prepare the registry {name}: {result}")
    template = workspace.folder / f"{name}.db"
    shutil.copy(run.home / "registry.db", template)
    workspace.shared[f"digest:{name}"] = Evidence(run.database).digest()
    run.close()
    return template

"""Which checks run, in what order, how long each may take, and how hard they work."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .check_table import CHECK_TABLE
from .host import HostAccess, RawCheckResult
from .settings import PARAMETERS, SECONDS


class CheckSpec(NamedTuple):
    """A check, and the seconds after which it is ended.

    A check that loads the node (``is_load``) also has the time that its parameters ask for, and is not run on a busy
    node. Its module is imported in the process of the check: the agent itself stays small and starts at once.
    """

    name: str
    seconds: float
    is_load: bool = True

    def run(self, host: HostAccess) -> RawCheckResult:
        """Run the check on a host."""
        module = importlib.import_module(f"..checks.{self.name}.measure", __package__)
        result: RawCheckResult = module.measure_host(host)
        return result


# Firmware flags and temperatures are read after the load that would raise them.
CHECKS = {name: CheckSpec(name, check["seconds"], check["is_load"]) for name, check in CHECK_TABLE.items()}


def list_check_values(column: str) -> dict[str, Any]:
    """Return the checks' own parameters that have a value in a profile, or in a rehearsal."""
    entries = [entry for check in CHECK_TABLE.values() for entry in check["parameters"].items()]
    return {name: entry[column] for name, entry in entries if column in entry}


# Every number is a parameter: `-p cpu_seconds=60`. A round runs every check once; no new round begins that would end
# after the budget, by the longest round so far. The checks' own parameters are in their check.yaml.
SHARED: dict[str, dict[str, Any]] = {
    "quick": {"rounds": 1, "card_seconds": 10.0},
    "standard": {"rounds": 2, "budget_seconds": 3600.0, "stress_ng_seconds": 300.0, "card_seconds": 120.0},
    "soak": {"rounds": 48, "budget_seconds": 86_400.0, "stress_ng_seconds": 900.0, "card_seconds": 300.0},
}
PROFILES = {name: {**values, **list_check_values(name)} for name, values in SHARED.items()}

# Many rehearsed hosts share a few cores and one disk: just enough work to measure something real. A run at
# this pace says so in its start line, and is only ever judged as a rehearsal.
REHEARSAL_PARAMETERS = {"stress_ng_seconds": 0.0, "card_seconds": 0.5, **list_check_values("rehearsal")}

MAX_REHEARSAL_ROUNDS = 2

# How long each check asks to work, by parameter; its limit is that, tripled, plus its own seconds.
WORK_PARAMETERS = tuple(name for name, setting in PARAMETERS.items() if setting == SECONDS)


def build_check_parameters(profile: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's parameters with those given on the command line in their place."""
    rehearsal = bool(overrides.get("rehearsal", False))
    rounds = {"rounds": min(PROFILES[profile]["rounds"], MAX_REHEARSAL_ROUNDS)}
    pace = {**REHEARSAL_PARAMETERS, **rounds} if rehearsal else {}
    return {**PROFILES[profile], **pace, **overrides, "rehearsal": rehearsal}


def compute_time_limit_s(check_name: str, params: dict[str, Any]) -> float:
    """Return the seconds after which a check is ended."""
    check = CHECKS[check_name]
    requested_seconds = sum(float(params.get(key, 0)) for key in WORK_PARAMETERS) if check.is_load else 0.0
    return check.seconds + 3 * requested_seconds

"""A run's artifacts as ansible-runner leaves them, in which recorded blades are commissioned and measured."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.data.recorded_agent import records_of, serial_of
from faults.workspace import CASES

BASE = CASES / "burnin" / "bases" / "compute_blade.json"
ATTEMPT = "recorded-1"
PROBE, REPORT, BURN_IN = "gpufleet.fleet.probe", "gpufleet.fleet.report", "gpufleet.fleet.burn_in"


def node_events(node: str, attempt: str = ATTEMPT) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the reports of a healthy node's run, each with its action."""
    payload = {"node": node, "attempt": attempt}
    facts = {"serial": serial_of(node), "arch": "aarch64"}
    yield PROBE, {**payload, "event": "commissioned", "facts": facts}
    yield REPORT, {**payload, "event": "configured", "facts": {}}
    yield BURN_IN, {**payload, "event": "burn_in", "records": records_of(BASE, node, attempt)}


def write_run(folder: Path, nodes: Sequence[str], attempt: str = ATTEMPT, at: datetime | None = None) -> Path:
    """Write the events of a run over these nodes; return the run's folder."""
    events = folder / "job_events"
    events.mkdir(parents=True, exist_ok=True)
    moment = at or datetime.now(UTC) + timedelta(seconds=5)  # later than the declaration of the nodes
    number, process = 0, f"0242ac11-0002-{zlib.crc32(attempt.encode()):08x}"
    for node in nodes:
        for task, (action, report) in enumerate(node_events(node, attempt), start=1):
            number += 1
            when = (moment + timedelta(seconds=number)).isoformat()
            # A task's id as Ansible makes it: its process, then its count, the same for every host.
            uuid = f"{process}-{task:012}"
            data = {"host": node, "task_action": action, "task_uuid": uuid, "start": when, "end": when}
            data |= {"res": {"changed": False, "gpufleet": report}}
            event = {"event": "runner_on_ok", "uuid": f"u{number}", "created": when, "event_data": data}
            (events / f"{number}-u{number}.json").write_text(json.dumps(event))
    return folder

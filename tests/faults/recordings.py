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
    write_end(folder, nodes, number + 1)
    return folder


def write_end(folder: Path, nodes: Sequence[str], number: int) -> None:
    """Write that the run had one play, which every node finished, and ended successfully."""
    selected, finished = {"selected": list(nodes), "play_count": 1}, {"finished": list(nodes), "stopped": []}
    for kind, data in (
        ("playbook_on_play_start", {"uuid": "p", "name": "Recorded"}),
        ("gpufleet_play_selected", {"play_id": "p", **selected}),
        ("playbook_on_stats", {"processed": dict.fromkeys(nodes, 1)}),
        ("gpufleet_batch_ended", {"play_id": "p", **finished}),
    ):
        event = {"event": kind, "event_data": data}
        (folder / "job_events" / f"{number}-e{number}.json").write_text(json.dumps(event))
        number += 1
    (folder / "status").write_text("successful")

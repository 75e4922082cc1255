"""Fixtures: a registry with two blades, and events of a run as ansible-runner writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.fixture
def registry(tmp_path):
    """Give a registry of two expected blades of rack r1, declared at START."""
    seen = [
        NodeObservation(
            "rack:r1",
            f"blade{n:02}",
            NodeIdentity(rack="r1", slot=str(n)),
            declared={"kind": "compute_blade"},
            observed_at=START,
        )
        for n in (1, 2)
    ]
    with Registry(f"sqlite:///{tmp_path / 'registry.db'}") as opened:
        opened.apply_source_report(SourceReport("rack:r1", START, seen))
        yield opened


@pytest.fixture
def artifacts(tmp_path):
    """Write events as ansible-runner does: ``artifacts(("ok", "blade01", minute, action, result), ...)``."""

    runs = []

    def write(*events):
        runs.append(events)
        folder = tmp_path / "artifacts" / f"run{len(runs)}" / "job_events"
        folder.mkdir(parents=True)
        for number, (outcome, host, minute, action, result) in enumerate(events, 1):
            moment = (START + timedelta(minutes=minute)).isoformat()
            data = {"host": host, "task_action": action, "res": result, "start": moment, "end": moment}
            event = {"event": f"runner_on_{outcome}", "created": moment, "event_data": data}
            (folder / f"{number}-abc.json").write_text(json.dumps(event))
        return folder.parent

    return write


@pytest.fixture
def report():
    """Return a task result that reports to the registry."""

    def make(event, attempt="a1", **more):
        return {"changed": False, "gpufleet": {"node": "x", "event": event, "attempt": attempt, **more}}

    return make


@pytest.fixture
def override_file(tmp_path, monkeypatch):
    """Give the override file of an otherwise empty project, which is the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "burn-in-thresholds.yaml"


@pytest.fixture
def override_text():
    """Give a file with one override, under which every blade is too hot."""
    return """overrides:
  - {check: pi_temperature, metric: celsius, instead_of: 80, value: 10, reason: a test of overrides, by: Ada,
     date: 2026-11-20}
"""

"""Test the order of reported events: by run and event, independent of clocks, live and from artifacts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpufleet.operations.ingest import EventIngester, ingest_events
from gpufleet.operations.task_events import (
    TaskEventReader,
    build_task_event,
    extract_run_name,
    read_artifact_events,
)

BASE = Path(__file__).resolve().parents[1] / "cases/burnin/bases/compute_blade.json"
RECORDS = json.loads(BASE.read_text())["records"]
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PROBE, BURN_IN = "gpufleet.fleet.probe", "gpufleet.fleet.burn_in"
JUMPS = pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(days=365)], ids=["back", "ahead"])


class Run:
    """One Ansible process: its events as the callback makes them, and as ansible-runner records them."""

    def __init__(self, name):
        self.name, self.reader, self.files = name, TaskEventReader(), []

    def event(self, task, at, outcome="ok", action=PROBE, host="blade01", **result):
        """Return the live event of a task, and record it."""
        uuid = f"{self.name}-{task:012x}"
        data = {
            "host": host, "task_uuid": uuid, "task_action": action, "res": result,
            "start": at.isoformat(), "end": at.isoformat(),
        }  # fmt: skip
        self.files.append({"event": f"runner_on_{outcome}", "event_data": data, "created": at.isoformat()})
        key = self.reader.next_event_key(uuid, host)
        return build_task_event(
            host, outcome, result, action=action, at=at, key=key, run=extract_run_name(uuid)
        )

    def artifacts(self, folder):
        """Write what ansible-runner leaves; return the run's folder."""
        jobs = folder / self.name / "job_events"
        jobs.mkdir(parents=True)
        for number, event in enumerate(self.files, 1):
            (jobs / f"{number}-x.json").write_text(json.dumps(event))
        return jobs.parent


def report_result(event, attempt, **more):
    return {"gpufleet": {"event": event, "attempt": attempt, **more}}


def burn_in_event(run, task, at, attempt):
    return run.event(task, at, action=BURN_IN, **report_result("burn_in", attempt, records=RECORDS))


def read_histories(registry):
    return [registry.list_node_history(name) for name in ("blade01", "blade02")], registry.list_nodes()


@JUMPS
def test_live_run_is_applied_despite_clock_jumps(registry, jump):
    run = Run("aa")
    events = [
        run.event(1, NOON, **report_result("commissioned", "a1", facts={"serial": "10000000a1b2c3d4"})),
        burn_in_event(run, 2, NOON + jump, "a1"),
        run.event(3, NOON + jump + timedelta(minutes=5), "unreachable", msg="timed out"),
        run.event(4, NOON + timedelta(minutes=6)),
    ]
    applied = EventIngester(registry, live=True).ingest_stream(events)
    node = registry.get_node("blade01")
    assert (node.state, node.reachable, applied.stale) == ("ready", True, [])


@JUMPS
def test_ingesting_the_artifacts_of_a_live_run_changes_nothing(registry, tmp_path, jump):
    run = Run("aa")
    events = [
        run.event(1, NOON, **report_result("commissioned", "a1", facts={"serial": "10000000a1b2c3d4"})),
        run.event(2, NOON + jump, "unreachable", msg="timed out"),
        run.event(3, NOON + jump + timedelta(minutes=1)),
        burn_in_event(run, 4, NOON + timedelta(minutes=2), "a1"),
    ]
    EventIngester(registry, live=True).ingest_stream(events)
    before = read_histories(registry)
    applied = ingest_events(registry, read_artifact_events(run.artifacts(tmp_path)))
    assert read_histories(registry) == before
    assert (applied.repeated, applied.stale) == (4, [])


def test_missed_events_are_ingested_from_artifacts_in_order(registry, tmp_path):
    run = Run("aa")
    events = [
        run.event(1, NOON, **report_result("commissioned", "a1", facts={"serial": "10000000a1b2c3d4"})),
        burn_in_event(run, 2, NOON + timedelta(minutes=2), "a1"),
        run.event(3, NOON + timedelta(minutes=3), "unreachable", msg="timed out"),
    ]
    live = EventIngester(registry, live=True)
    live.ingest_event(events[0])
    live.ingest_event(events[2])
    ingest_events(registry, read_artifact_events(run.artifacts(tmp_path)))
    node = registry.get_node("blade01")
    assert (node.state, node.verdict, node.reachable) == ("ready", "healthy", False)


@JUMPS
def test_older_run_ingested_later_is_reported_as_stale(registry, tmp_path, jump):
    old, new = Run("aa"), Run("bb")
    old.event(1, NOON, **report_result("commissioned", "a1", facts={"serial": "10000000a1b2c3d4"}))
    burn_in_event(old, 2, NOON + timedelta(minutes=1), "a1")
    old.event(3, NOON + timedelta(minutes=2), "unreachable", msg="timed out")
    registry.create_revision(NOON + timedelta(hours=1))  # the operator went on by a right clock
    live = [
        new.event(
            1, NOON + jump, **report_result("commissioned", "b1", facts={"serial": "10000000a1b2c3d4"})
        ),
        new.event(2, NOON + jump, **report_result("configure_failed", "b1", facts={"reason": "no space"})),
    ]
    EventIngester(registry, live=True).ingest_stream(live)
    before = [(node.state, node.attempt, node.verdict, node.reachable) for node in registry.list_nodes()]
    applied = ingest_events(registry, read_artifact_events(old.artifacts(tmp_path)))
    assert [
        (node.state, node.attempt, node.verdict, node.reachable) for node in registry.list_nodes()
    ] == before
    assert applied.ignored == ["blade01: attempt a1: healthy"]
    assert any("it did not answer" in line for line in applied.stale)
    assert any("ansible reported" in line for line in applied.stale)
    lines = list(applied.format_summary_lines())
    assert any(line.startswith("stale, changed nothing: blade01") for line in lines)
    assert applied.as_json()["stale"] == applied.stale


def test_run_from_before_the_first_sync_is_applied(registry, tmp_path):
    """The registry's own hint for an unknown host is to sync and to ingest again."""
    run, early = Run("aa"), datetime(2026, 11, 20, tzinfo=UTC)
    run.event(1, early, **report_result("commissioned", "a1", facts={"serial": "10000000a1b2c3d4"}))
    burn_in_event(run, 2, early + timedelta(minutes=1), "a1")
    ingest_events(registry, read_artifact_events(run.artifacts(tmp_path)))
    assert registry.get_node("blade01").state == "ready"


def test_run_of_a_retired_board_does_not_move_its_successor(registry, tmp_path):
    from gpufleet.nodes import NodeIdentity, NodeObservation

    run = Run("aa")
    run.event(1, NOON - timedelta(days=1), **report_result("commissioned", "a1", facts={"arch": "aarch64"}))
    registry.move_node("blade01", "retired", "sold")
    identity = NodeIdentity(rack="r1", slot="1")
    registry.apply_observation(NodeObservation("rack:r1", "blade01", identity, observed_at=NOON))
    applied = ingest_events(registry, read_artifact_events(run.artifacts(tmp_path)))
    assert registry.get_node("blade01").state == "expected"
    assert applied.stale


def test_late_live_result_of_a_superseded_attempt_is_ignored(registry):
    slow, fast = Run("aa"), Run("bb")
    slow_ingester, fast_ingester = EventIngester(registry, live=True), EventIngester(registry, live=True)
    slow_ingester.ingest_event(slow.event(1, NOON))
    fast_ingester.ingest_event(
        fast.event(1, NOON, **report_result("commissioned", "b1", facts={"serial": "10000000a1b2c3d4"}))
    )
    slow_ingester.ingest_event(burn_in_event(slow, 2, NOON + timedelta(days=365), "a1"))
    assert slow_ingester.summary.ignored == ["blade01: attempt a1: healthy"]
    assert registry.get_node("blade01").state == "commissioning"


def test_repeated_handler_is_recorded_as_two_events(registry, tmp_path):
    run = Run("aa")
    live = EventIngester(registry, live=True)
    for minute, answer in enumerate(["unreachable", "ok", "unreachable"]):
        live.ingest_event(run.event(7, NOON + timedelta(minutes=minute), answer))
    before = read_histories(registry)
    assert ingest_events(registry, read_artifact_events(run.artifacts(tmp_path))).repeated == 3
    assert read_histories(registry) == before

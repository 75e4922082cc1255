"""Test malformed reports of a node: the event is recorded as invalid, and the others are applied."""

from __future__ import annotations

import json

import pytest

from gpufleet.operations.ingest import EventIngester, ingest_events
from gpufleet.operations.ingest_summary import IngestSummary
from gpufleet.operations.task_events import TaskEventReader, build_task_event, read_artifact_events

REPORT = "gpufleet.fleet.report"
GOOD = {"event": "commissioned", "attempt": "a1", "facts": {"serial": "10000000a1b2c3d4"}}
DEEP = json.loads("[" * 900 + "]" * 900)

BAD_REPORTS = {
    "records is a number": {"event": "burn_in", "attempt": "a1", "records": 7},
    "a record is a list": {"event": "burn_in", "attempt": "a1", "records": [[]]},
    "facts is a list": {"event": "commissioned", "attempt": "a1", "facts": [1]},
    "the event is a list": {"event": [], "attempt": "a1"},
    "the attempt is a number": {"event": "commissioned", "attempt": 5},
    "the attempt has escapes": {"event": "commissioned", "attempt": "\x1b[2J"},
    "the part is a mapping": {"event": "configured", "part": {}},
    "a number is none": {"event": "drivers", "facts": {"version": float("nan")}},
    "a NUL character": {"event": "drivers", "facts": {"version": "5\x0060"}},
    "a lone surrogate": {"event": "drivers", "facts": {"version": "\ud800"}},
    "deep": {"event": "drivers", "facts": {"deep": DEEP}},
    "many values": {"event": "drivers", "facts": {"list": list(range(60_000))}},
    "a long text": {"event": "drivers", "facts": {"version": "x" * 300_000}},
    "a huge number": {"event": "drivers", "facts": {"version": 1 << 80}},
    "a text in place of the report": "commissioned",
}


@pytest.fixture(autouse=True)
def _blades(registry, lab):
    """Declare two blades on each database in turn."""
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))


def ingest_report_events(registry, *events, live=True):
    ingest = EventIngester(registry, live=live)
    return ingest.ingest_stream(events)


def build_event(host, report, reader=None, outcome="ok", **result):
    key = (reader or TaskEventReader()).next_event_key(f"task-{id(report)}", host)
    return build_task_event(host, outcome, {"gpufleet": report, **result}, action=REPORT, key=key, run="r")


@pytest.mark.parametrize("bad", BAD_REPORTS.values(), ids=BAD_REPORTS)
def test_invalid_report_is_recorded_and_the_others_are_applied(registry, bad):
    applied = ingest_report_events(registry, build_event("blade01", bad), build_event("blade02", GOOD))
    assert registry.get_node("blade02").state == "commissioning"
    assert registry.get_node("blade01").state == "expected"
    (line,) = applied.bad
    assert line.startswith("blade01: ")
    assert line.isprintable()
    assert len(line) < 500
    assert "bad_report" in [change.event for change in registry.list_node_history("blade01")]


@pytest.mark.parametrize(
    "result",
    [
        {"results": 5},
        {"results": [5, {"failed": True, "msg": []}]},
        {"results": [{"failed": True, "results": [{"failed": True}]}]},
        {"msg": {"a": 1}},
        {"msg": "x" * 10_000_000},
        {"msg": "a\x00b\x1b]0;title\x07\ud800"},
        {"stderr": DEEP},
    ],
    ids=str,
)
def test_malformed_failure_becomes_one_bounded_line(registry, result):
    applied = ingest_report_events(
        registry, build_event("blade01", None, outcome="unreachable", **result), build_event("blade02", GOOD)
    )
    assert applied.bad == []
    detail = registry.get_node("blade01").reachable_detail
    assert detail.isprintable()
    assert len(detail) <= 2000
    assert registry.get_node("blade02").state == "commissioning"


@pytest.mark.parametrize(
    "serial",
    [
        "#jinja2:variable_start_string:'[['",
        "{{ lookup('pipe', 'id') }}",
        "a\nb: c12345",
        "\x1b[31mred",
        "1" * 500,
        ["10000000a1b2c3d4"],
    ],
    ids=str,
)
def test_malformed_serial_never_enters_the_registry(registry, serial):
    applied = ingest_report_events(
        registry, build_event("blade01", GOOD | {"facts": {"serial": serial, "arch": "aarch64"}})
    )
    assert registry.get_node("blade01").serial is None
    assert str(serial) not in [str(value.value) for value in registry.list_node_values("blade01")]
    assert bool(applied.bad) is isinstance(serial, str)
    assert all(line.isprintable() for line in applied.bad)


def test_report_applies_to_the_inventory_host_only(registry):
    ingest_report_events(
        registry, build_event("blade01", GOOD | {"node": "blade02", "host": "blade02", "name": "blade02"})
    )
    assert registry.get_node("blade01").state == "commissioning"
    assert registry.get_node("blade02").state == "expected"


def test_endless_reason_is_truncated_before_it_is_stored(registry):
    report = {"event": "configure_failed", "facts": {"task": "t", "reason": "y" * 200_000}}
    ingest_report_events(registry, build_event("blade01", report))
    (line,) = [
        change for change in registry.list_node_history("blade01") if change.event == "configure_failed"
    ]
    assert len(line.reason) <= 2000


BAD_FILES = {
    "host is a list": {"event": "runner_on_ok", "event_data": {"host": ["blade01"]}},
    "host is long": {"event": "runner_on_ok", "event_data": {"host": "b" * 9999}},
    "no data": {"event": "runner_on_ok", "event_data": 5},
    "not a mapping": [1],
    "cut off": '{"event": "runner_on_ok", "event_da',
    "deep": '{"event": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "not a number": '{"event": NaN}',
    "not text": b"\xff\xfe\xfa",
    "an empty file": "",
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_invalid_event_file_is_reported_and_the_others_are_applied(registry, tmp_path, content):
    folder = tmp_path / "artifacts" / "run1" / "job_events"
    folder.mkdir(parents=True)
    raw = (
        content
        if isinstance(content, bytes)
        else content
        if isinstance(content, str)
        else json.dumps(content)
    )
    (folder / "1-a.json").write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    data = {"host": "blade02", "task_action": REPORT, "res": {"gpufleet": GOOD}, "start": "2999", "end": {}}
    (folder / "2-b.json").write_text(json.dumps({"event": "runner_on_ok", "event_data": data, "created": 5}))
    applied = ingest_events(registry, read_artifact_events(tmp_path / "artifacts"))
    assert registry.get_node("blade02").state == "commissioning"
    assert len(applied.bad) == 1
    assert applied.bad[0].startswith("run1/1-a.json: ")
    assert ingest_events(registry, read_artifact_events(tmp_path / "artifacts")).repeated == 2


def test_event_is_applied_completely_or_not_at_all(registry, monkeypatch):
    from gpufleet.errors import EnvironmentFault

    def fail(*_args, **_kwargs):
        raise EnvironmentFault("the disk is full")

    monkeypatch.setattr(registry, "advance_node", fail)
    with pytest.raises(EnvironmentFault):
        ingest_report_events(registry, build_event("blade01", GOOD))
    monkeypatch.undo()
    node = registry.get_node("blade01")
    assert (node.serial, node.attempt, node.reachable) == (None, None, None)


def test_many_invalid_lines_are_counted():
    lines = list(IngestSummary(bad=[f"line {n}" for n in range(50)]).format_summary_lines())
    assert lines[-1] == "bad, left out: 30 more"

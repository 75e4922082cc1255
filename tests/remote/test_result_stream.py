"""Test what is taken from a mesh node's output: bounded, typed, about the hosts of its shard."""

from __future__ import annotations

import base64
import io
import json

import pytest

from gpufleet.remote.shards import result_stream
from gpufleet.remote.shards.result_stream import ResultStream, check_runner_event

HOSTS = frozenset({"h1", "h2"})


def make_event(**changes):
    event = {"counter": 3, "uuid": "0a-b", "event": "runner_on_ok", "stdout": "ok: [h1]", "created": ""}
    data = {"host": "h1", "task": "One", "res": {"changed": True}}
    return event | {"event_data": data | changes.pop("data", {})} | changes


def read_all(*messages, hosts=HOSTS):
    source = b"".join(
        message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        for message in messages
    )
    stream = ResultStream(io.BytesIO(source), hosts)
    return stream, [json.loads(line) for line in iter(stream.readline, b"")]


def test_events_and_states_pass():
    stream, messages = read_all({"status": "running", "env": {"KEY": "x"}}, make_event(), {"eof": True})
    assert messages == [{"status": "running", "job_explanation": ""}, make_event(), {"eof": True}]
    assert (stream.ignored, stream.failure, stream.last_line) == (0, "", "ok: [h1]")


def test_repeated_task_has_a_number_in_its_identifier():
    """Recorded from ansible-runner 2.4: `meta: flush_handlers`, which a play with several batches repeats."""
    event = make_event(uuid="02fc0000-0001-2fd3-6656-00000000016b_2", event="playbook_on_task_start")
    assert read_all(event)[1] == [event]


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": 0}, {"counter": True}, {"counter": "3"}, {"counter": 10**12},
        {"uuid": "../../../etc/cron.d/x"}, {"uuid": ""}, {"uuid": 4}, {"uuid": "a_b"},
        {"event": ["runner_on_ok"]}, {"event": "../x"}, {"stdout": {"a": 1}}, {"created": 5},
        {"data": {"host": "h9"}}, {"data": {"host": ["h1"]}}, {"data": {"task": {"a": 1}}},
        {"data": {"res": "text"}}, {"data": {"task": "x" * 1001}}, {"event_data": ["h1"]},
    ],
)  # fmt: skip
def test_invalid_event_is_ignored_and_counted(changes):
    event = make_event() | changes if "event_data" in changes else make_event(**changes)
    assert check_runner_event(event, HOSTS) is None
    stream, messages = read_all(event, make_event())
    assert (messages, stream.ignored) == ([make_event()], 1)


def test_statistics_are_of_the_shards_hosts_only():
    data = {"processed": {"h1": 1, "h9": 1}, "dark": {"h9": 1}, "failures": "all"}
    event = {"counter": 9, "uuid": "u", "event": "playbook_on_stats", "event_data": data}
    cleaned = check_runner_event(event, HOSTS)["event_data"]
    assert (cleaned["processed"], cleaned["dark"], cleaned["failures"]) == ({"h1": 1}, {}, {})


def test_records_of_plays_are_of_the_shards_hosts_only():
    data = {"play_id": "p", "finished": ["h1", "h9"], "stopped": ["h2"]}
    event = {"counter": 9, "uuid": "u", "event": "gpufleet_batch_ended", "event_data": data}
    cleaned = check_runner_event(event, HOSTS)["event_data"]
    assert (cleaned["finished"], cleaned["stopped"], cleaned["selected"]) == (["h1"], ["h2"], [])


@pytest.mark.parametrize("data", [{"finished": {"h1": 1}}, {"stopped": [["h1"]]}, {"play_count": "2"}])
def test_invalid_record_of_a_play_is_ignored(data):
    event = {
        "counter": 9,
        "uuid": "u",
        "event": "gpufleet_batch_ended",
        "event_data": {"play_id": "p", **data},
    }
    assert check_runner_event(event, HOSTS) is None


def test_archive_is_skipped_and_never_unpacked():
    archive = base64.b64encode(b"z" * 100)
    stream, messages = read_all(b'{"zipfile": 100}\n' + archive, {"eof": True})
    assert (messages, stream.failure) == ([{"eof": True}], "")


@pytest.mark.parametrize("size", [-1, 10**15, "9", True, None])
def test_invalid_size_of_an_archive_ends_the_stream(size):
    stream, messages = read_all({"zipfile": size}, make_event())
    assert messages == []
    assert stream.failure.startswith("the node announced an archive of ")


def test_lines_that_are_not_json_are_skipped_and_the_last_is_kept_printable():
    stream, messages = read_all(
        b"Traceback\n", b"\x1b[31mImportError: no \x07module\x1b[0m\n", make_event(stdout="")
    )
    assert messages == [make_event(stdout="")]
    assert "ImportError: no" in stream.last_line
    assert stream.last_line.isprintable()


def test_output_is_bounded(monkeypatch):
    monkeypatch.setattr(result_stream, "BASE_BYTES", 3000)
    monkeypatch.setattr(result_stream, "BYTES_PER_HOST", 0)
    stream, messages = read_all(*[make_event()] * 100)
    assert 5 < len(messages) < 30
    assert stream.failure == "the node sent more than 0 MiB"
    monkeypatch.setattr(result_stream, "BASE_BYTES", 1 << 30)
    stream, messages = read_all(b"x" * (9 << 20))
    assert (messages, stream.failure) == ([], "the node sent a line of more than 8 MiB")

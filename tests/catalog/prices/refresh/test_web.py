from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.catalog.prices.refresh import HttpClient, RequestRejected, SourceUnavailable
from gpufleet.catalog.prices.refresh.http_client import MAX_WAIT_S, TOTAL_TIMEOUT_S, parse_retry_after_seconds

from .conftest import FakeResponse

GOOD = {"answer": 42}
TROUBLE = {
    "throttled": FakeResponse(b"slow down", 429),
    "a server's fault": FakeResponse(b"", 503),
    "a gateway's fault": FakeResponse(b"<html>", 502),
    "no JSON": FakeResponse(b"<html>maintenance</html>"),
    "half a JSON": FakeResponse(b'{"answer": '),
    "no object": FakeResponse(b"[1, 2]"),
    "no text": FakeResponse(b"\xff\xfe\x00"),
    "nothing": FakeResponse(b""),
    "cut off": FakeResponse(b'{"answer": 42}', cut=5),
    "cut off before the body": FakeResponse(b'{"answer": 42}', cut=0),
}


@pytest.mark.parametrize("what", sorted(TROUBLE))
def test_temporary_errors_are_retried(start_fake_server, http_client, what, clock):
    fake_server = start_fake_server(lambda *_: GOOD, [TROUBLE[what]] * 3)
    assert http_client.get_json(fake_server.base) == GOOD
    assert len(fake_server.requests) == 4
    assert len(clock.slept) == 3
    assert sorted(clock.slept) == clock.slept  # ever longer


@pytest.mark.parametrize("what", sorted(TROUBLE))
def test_permanent_errors_end_after_four_tries(start_fake_server, http_client, what, clock):
    fake_server = start_fake_server(lambda *_: GOOD, [TROUBLE[what]] * 9)
    with pytest.raises(SourceUnavailable, match=r"\(4 tries\)"):
        http_client.get_json(fake_server.base)
    assert len(fake_server.requests) == 4
    assert clock() < 12


def test_retry_after_header_is_obeyed_exactly(start_fake_server, http_client, clock):
    fake_server = start_fake_server(lambda *_: GOOD, [FakeResponse(b"", 429, {"Retry-After": "17"})])
    assert http_client.get_json(fake_server.base) == GOOD
    assert clock.slept == [17.0]


def test_too_long_retry_after_is_refused_without_waiting(start_fake_server, http_client, clock):
    fake_server = start_fake_server(lambda *_: GOOD, [FakeResponse(b"", 429, {"Retry-After": "3600"})])
    with pytest.raises(SourceUnavailable, match="asks for a wait of 3600 s"):
        http_client.get_json(fake_server.base)
    assert clock.slept == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 301, 302])
def test_client_error_is_not_retried(start_fake_server, http_client, status, clock):
    answer = FakeResponse(
        b'{"error": {"message": "no such filter\\nand more"}}', status, {"Location": "http://x.example"}
    )
    fake_server = start_fake_server(lambda *_: GOOD, [answer])
    with pytest.raises(RequestRejected, match=f"HTTP {status}: no such filter$"):
        http_client.get_json(fake_server.base)
    assert (len(fake_server.requests), clock.slept) == (1, [])


def test_refused_connection_makes_the_source_unavailable_and_hides_the_key(http_client):
    with socket.socket() as connections:
        connections.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{connections.getsockname()[1]}/x?key=secret"
        with pytest.raises(SourceUnavailable) as excinfo:
            http_client.get_json(address)
    assert "secret" not in excinfo.value.message


def test_slow_response_is_cut_off_after_the_total_timeout(start_fake_server, clock):
    late = iter([0.0, TOTAL_TIMEOUT_S + 1, TOTAL_TIMEOUT_S + 2])
    fake_server = start_fake_server(lambda *_: GOOD)
    slow = HttpClient(tries=1, sleep=clock.sleep, clock=lambda: next(late))
    with pytest.raises(SourceUnavailable, match="needs more than 180 s"):
        slow.get_json(fake_server.base)


def test_too_large_response_is_cut_off(start_fake_server, http_client, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.http_client.MAX_BODY_BYTES", 10)
    fake_server = start_fake_server(lambda *_: {"answer": "x" * 100})
    with pytest.raises(SourceUnavailable, match="more than the size limit"):
        http_client.get_json(fake_server.base)


def test_query_is_encoded_and_hidden_in_messages(start_fake_server, http_client):
    fake_server = start_fake_server(lambda *_: GOOD, [FakeResponse(b"", 404)])
    with pytest.raises(RequestRejected) as excinfo:
        http_client.get_json(fake_server.base, {"$filter": "a eq 'b c'", "key": "secret"})
    assert "secret" not in excinfo.value.message
    assert fake_server.requests == ["/?%24filter=a+eq+%27b+c%27&key=secret"]


def test_waiting_is_reported(start_fake_server, clock):
    messages = []
    fake_server = start_fake_server(lambda *_: GOOD, [FakeResponse(b"", 429, {"Retry-After": "2"})])
    HttpClient(sleep=clock.sleep, clock=clock, report=messages.append).get_json(fake_server.base)
    assert messages == [f"{fake_server.base}: HTTP 429; retrying in 2 s"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        (" 30 ", 30),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(header, seconds):
    assert parse_retry_after_seconds(header, datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)) == seconds


@given(st.text())
def test_any_retry_after_header_gives_seconds_or_none(header):
    seconds = parse_retry_after_seconds(header)
    assert seconds is None or seconds >= 0


def test_wait_before_a_retry_is_bounded():
    assert MAX_WAIT_S <= 120

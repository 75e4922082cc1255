"""Fake cloud APIs on the loopback interface, with the documented responses and simulated failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gpufleet.catalog.prices import PriceStore
from gpufleet.catalog.prices.refresh import HttpClient, RefreshScope

CASES = Path(__file__).resolve().parents[3] / "cases/catalog/refresh"
DAY = date(2026, 11, 21)
TODAY = RefreshScope(DAY)


@dataclass
class FakeResponse:
    """The response of a fake server. ``cut``: it announces the full body and stops there."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class FakeServer:
    """A loopback server. ``trouble`` is sent first, answer by answer; then ``serve`` answers properly."""

    serve: Callable[[str, dict[str, str]], dict | bytes]
    trouble: list[FakeResponse] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    base: str = ""

    def answer(self, target, headers):
        self.requests.append(target)
        self.headers.append(headers)
        if self.trouble:
            return self.trouble.pop(0)
        parts = urlsplit(target)
        content = self.serve(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})
        if isinstance(content, FakeResponse):
            return content
        return FakeResponse(content if isinstance(content, bytes) else json.dumps(content).encode())


def make_handler(fake_server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self._send(fake_server.answer(self.path, dict(self.headers)))

        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            target = f"{self.path}?{self.headers.get('X-Amz-Target', '')}&{content.decode()}"
            self._send(fake_server.answer(target, dict(self.headers)))

        def _send(self, answer):
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: answer.cut])
            if answer.cut is not None:
                self.close_connection = True

        def log_message(self, *_):
            """Write no log."""

    return Handler


@pytest.fixture
def start_fake_server():
    """Start fake servers and stop them after the test."""
    servers = []

    def start(answer, trouble=()):
        fake_server = FakeServer(answer, list(trouble))
        server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(fake_server))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        fake_server.base = f"http://127.0.0.1:{server.server_address[1]}"
        return fake_server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@dataclass
class FakeClock:
    """A clock that only sleeping moves."""

    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds):
        self.slept.append(seconds)

    def __call__(self):
        return sum(self.slept)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def http_client(clock):
    return HttpClient(tries=4, sleep=clock.sleep, clock=clock)


@pytest.fixture
def store_path(tmp_path, monkeypatch):
    path = tmp_path / "prices.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    return path


@pytest.fixture
def store(store_path):
    with PriceStore(store_path) as open_store:
        yield open_store


def read_case(name):
    return json.loads((CASES / name).read_text())


def list_visible_prices(store):
    """Return all that look-ups may use, without the number of the run that brought it."""
    columns = "cloud, region, item, purchase, upfront, usd_per_hour, upfront_usd, as_of, source, unit"
    return sorted(store.connection.execute(f"SELECT {columns} FROM prices").fetchall())


def count_staged_prices(store):
    return store.connection.execute("SELECT count(*) FROM staged").fetchone()[0]


def check_store_integrity(store):
    """Verify that a store is consistent: SQLite's check, no visible unfinished run, correct look-ups."""
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    open_runs = {
        number for (number,) in store.connection.execute("SELECT id FROM runs WHERE finished_at IS NULL")
    }
    assert not open_runs & {
        number for (number,) in store.connection.execute("SELECT DISTINCT run FROM prices")
    }
    keys = "SELECT DISTINCT cloud, region, item, purchase FROM"
    assert store.connection.execute(f"{keys} prices EXCEPT {keys} current").fetchall() == []
    assert store.connection.execute(f"{keys} current EXCEPT {keys} prices").fetchall() == []


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    """Take away what the developer's machine has: credentials, proxies, settings."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL",
                 "GOOGLE_API_KEY", "GOOGLE_OAUTH_ACCESS_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy",
                 "https_proxy"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # it keeps the credentials of an earlier test
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

"""Real exporters on loopback that serve recorded texts, a real registry, and a clock that tests move."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import ingest
from gpufleet.operations.task_events import build_task_event
from gpufleet.operations.watch.policy import DEFAULT_POLICY
from gpufleet.operations.watch.session import Clock, WatchSession
from gpufleet.operations.watch.store import WatchStore

START = datetime(2026, 11, 29, tzinfo=UTC)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answer = self.server.answer
        if callable(answer):
            answer(self)
            return
        body = answer.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Exporter:
    """An HTTP server on loopback; ``answer`` is its text, or a function of the handler; ``stop`` closes its port."""

    def __init__(self, answer):
        self.server = ThreadingHTTPServer(("0.0.0.0", 0), _Handler)  # nodes are 127.0.0.1, 127.0.0.2 …
        self.server.daemon_threads = True
        self.server.handle_error = lambda *arguments: None
        self.server.answer = answer
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(0.02), daemon=True)
        self.thread.start()
        self.is_open = True

    def say(self, answer):
        self.server.answer = answer

    def stop(self):
        if self.is_open:
            self.is_open = False
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()


@pytest.fixture
def exporter():
    """Return a function that starts an exporter."""
    started = []

    def start(answer):
        started.append(Exporter(answer))
        return started[-1]

    yield start
    for each in started:
        each.stop()


class Time:
    """A clock that only tests move: ``pass_by`` moves both hands, ``jump`` the wall's alone."""

    def __init__(self):
        self.wall, self.seconds = START, 100.0

    def pass_by(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.seconds += seconds

    def jump(self, seconds):
        self.wall += timedelta(seconds=seconds)

    @property
    def clock(self):
        return Clock(lambda: self.wall, lambda: self.seconds)


@pytest.fixture
def hours():
    return Time()


class Fleet:
    """A registry with ready nodes, whose exporters are on loopback, and the watch of it."""

    def __init__(self, registry, folder, hours):
        self.registry, self.folder, self.hours = registry, folder, hours
        self.policy = DEFAULT_POLICY
        self.session = self.store = None
        self.names = []

    def add(self, name, **exporters):
        """Add a ready node with exporters by name."""
        place = NodeIdentity(rack="r1", slot=str(len(self.names) + 1), serial=f"S{len(self.names):05d}")
        declared = {"kind": "gpu_server", "address": f"127.0.0.{len(self.names) + 1}"}
        self.names.append(name)
        self.registry.apply_observation(NodeObservation("rack:r1", name, place, declared=declared))
        self.registry.advance_node(name, "burn_in", "test")
        self.registry.move_node(name, "ready", "test")
        self.report(name, **exporters)

    def report(self, name, **exporters):
        listed = [{"name": kind, "port": each.port, "scheme": "http"} for kind, each in exporters.items()]
        result = {"gpufleet": {
            "node": name, "event": "configured", "part": "monitoring", "facts": {"exporters": listed},
        }}  # fmt: skip
        event = build_task_event(name, "ok", result, action="gpufleet.fleet.report", at=datetime.now(UTC))
        ingest.ingest_events(self.registry, [event])

    def start(self):
        """Start the watch, or start it again as after a restart."""
        self.stop()
        self.store = WatchStore(self.folder)
        self.session = WatchSession(self.registry, self.policy, self.store, clock=self.hours.clock)

    def stop(self):
        if self.store:
            self.store.close()
            self.store = None

    def cycle(self, count=1):
        """Run cycles at the watch's interval; return the last report."""
        if self.store is None:
            self.start()
        for _ in range(count):
            self.hours.pass_by(15)
            report = self.session.run_cycle()
        return report

    def node(self, name):
        return self.registry.get_node(name)

    def findings(self, name):
        return [e for e in self.registry.list_node_history(self.node(name).id) if e.event == "finding"]


@pytest.fixture
def fleet(tmp_path, monkeypatch, hours):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path))
    with Registry(url) as registry:
        fleet = Fleet(registry, tmp_path, hours)
        yield fleet
        fleet.stop()

"""The package server, against an archive of the test's own on the loopback."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpufleet.rehearsal.packages import hostfiles, server

MODIFIED = "Sat, 21 Nov 2026 10:00:00 GMT"


class Elsewhere(BaseHTTPRequestHandler):
    """An archive that counts what it is asked, and can be told to cut an answer short."""

    asked: list[str]
    files: dict[str, bytes]
    short = 0

    def do_GET(self):
        self.asked.append(self.path)
        body = self.files.get(self.path)
        if body is None:
            self.send_error(404, "Not Found")
        elif self.headers.get("If-Modified-Since") == MODIFIED:
            self.send_response(304)
            self.end_headers()
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", MODIFIED)
            self.end_headers()
            self.wfile.write(body[: len(body) - self.short])

    def log_message(self, *_words):
        pass


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setattr(Elsewhere, "asked", [], raising=False)
    monkeypatch.setattr(
        Elsewhere, "files", {"/d/pool/a.deb": b"a package", "/d/InRelease": b"index"}, raising=False
    )
    monkeypatch.setattr(Elsewhere, "short", 0)
    archive = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=archive.serve_forever, daemon=True).start()
    yield archive
    archive.shutdown()
    archive.server_close()


@pytest.fixture
def ask(elsewhere, tmp_path, monkeypatch):
    """Give a function that asks the server and returns status, reason and body."""
    monkeypatch.setattr(server, "LOOK_S", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "own").mkdir()
    (tmp_path / "own/Packages").write_text("stand-ins")
    config = tmp_path / "config.json"
    facts = {
        "addresses": ["127.0.0.1"],
        "port": port,
        "cache": str(tmp_path / "cache"),
        "proxy": "",
        "archives": {"debian": f"http://127.0.0.1:{elsewhere.server_port}/d"},
        "folders": {"stand-in": str(tmp_path / "own")},
    }
    config.write_text(json.dumps(facts))
    serving = threading.Thread(target=server.serve, args=[config], daemon=True)
    serving.start()

    def get(path, method="GET", **headers):
        deadline = time.monotonic() + 10
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request(method, path, headers=headers)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.reason, body

    yield get
    config.unlink()
    serving.join(timeout=10)
    assert not serving.is_alive()


def test_a_package_is_fetched_once(ask):
    assert ask("/debian/pool/a.deb") == ask("/debian/pool/a.deb") == (200, "OK", b"a package")
    assert Elsewhere.asked == ["/d/pool/a.deb"]


def test_an_index_is_asked_for_anew_and_kept_where_it_is_the_same(ask, monkeypatch):
    monkeypatch.setattr(server, "FRESH_S", -1)
    assert [ask("/debian/InRelease")[2] for _ in range(2)] == [b"index", b"index"]
    assert len(Elsewhere.asked) == 2


def test_a_host_that_has_the_newest_index_is_told_so(ask):
    assert ask("/debian/InRelease", **{"If-Modified-Since": MODIFIED})[0] == 304


def test_twenty_hosts_at_once_cost_one_question(ask):
    ask("/stand-in/Packages")
    together = [threading.Thread(target=ask, args=["/debian/InRelease"]) for _ in range(20)]
    for one in together:
        one.start()
    for one in together:
        one.join()
    assert Elsewhere.asked == ["/d/InRelease"]


def test_head_sends_no_body(ask):
    assert ask("/debian/pool/a.deb", "HEAD") == (200, "OK", b"")


def test_no_such_file_is_told_as_the_archive_tells_it(ask):
    status, reason, _ = ask("/debian/pool/none.deb")
    assert status == 404
    assert reason.endswith("says 404 Not Found")


def test_an_answer_cut_short_is_not_kept(ask, monkeypatch, tmp_path):
    monkeypatch.setattr(Elsewhere, "short", 3)
    assert ask("/debian/pool/a.deb")[0] == 503
    monkeypatch.setattr(Elsewhere, "short", 0)
    assert ask("/debian/pool/a.deb")[2] == b"a package"
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_without_the_archive_what_is_kept_is_given_and_the_rest_explained(ask, elsewhere, monkeypatch):
    monkeypatch.setattr(server, "FRESH_S", -1)
    ask("/debian/InRelease")
    elsewhere.shutdown()
    elsewhere.server_close()
    assert ask("/debian/InRelease")[2] == b"index"
    status, reason, _ = ask("/debian/pool/b.deb")
    assert status == 503
    assert "does not answer the rehearsal: " in reason
    assert "Connection refused" in reason


@pytest.mark.parametrize(
    "path",
    ["/stand-in/../config.json", "/stand-in/%2e%2e/config.json", "/stand-in//etc/passwd", "/", "/other/x"],
)
def test_nothing_else_is_served(ask, path):
    assert ask(path)[0] == 404


def test_the_stand_ins_are_served_as_apt_asks_for_them(ask):
    assert ask("/stand-in/./Packages")[2] == b"stand-ins"


def test_what_nobody_asks_for_is_forgotten(tmp_path):
    now = time.time()
    for name, days in (("old.deb", 90), ("new.deb", 5), (".x.part", 5)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (now - days * 86400, now))
    server.forget_unused(tmp_path, now)
    assert [path.name for path in tmp_path.iterdir()] == ["new.deb"]


def test_a_hosts_apt_is_told_where_packages_are(monkeypatch):
    sources = hostfiles.apt.parse_sources(
        "deb http://deb.example/debian bookworm main\ndeb http://sec.example/debian-security bookworm-security main\n"
    )
    monkeypatch.setattr(hostfiles.apt, "system_sources", lambda: sources)
    files = hostfiles.host_files("198.18.7.1", "bookworm")
    told = files["etc/apt/sources.list.d/rehearsal.sources"]
    assert "URIs: http://198.18.7.1:3180/debian\nSuites: bookworm\nComponents: main contrib non-free" in told
    assert "URIs: http://198.18.7.1:3180/debian-security\nSuites: bookworm-security\n" in told
    assert "Trusted: yes" in files["etc/apt/sources.list.d/rehearsal-stand-in.sources"]


def test_a_machine_of_another_distribution_gets_debian_from_its_archive():
    assert [(a.name, a.uri) for a in hostfiles.apt.archives("bookworm", [])] == [
        ("debian", "http://deb.debian.org/debian")
    ]

"""The package server with a fake upstream archive on the loopback interface."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpufleet.rehearsal.packages import apt_config, server

MODIFIED = "Sat, 21 Nov 2026 10:00:00 GMT"


class FakeArchive(BaseHTTPRequestHandler):
    """An upstream archive that records its requests and can truncate a response."""

    requested_paths: list[str]
    files: dict[str, bytes]
    missing_bytes = 0

    def do_GET(self):
        self.requested_paths.append(self.path)
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
            self.wfile.write(body[: len(body) - self.missing_bytes])

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def upstream(monkeypatch):
    monkeypatch.setattr(FakeArchive, "requested_paths", [], raising=False)
    monkeypatch.setattr(
        FakeArchive, "files", {"/d/pool/a.deb": b"a package", "/d/InRelease": b"index"}, raising=False
    )
    monkeypatch.setattr(FakeArchive, "missing_bytes", 0)
    archive = ThreadingHTTPServer(("127.0.0.1", 0), FakeArchive)
    threading.Thread(target=archive.serve_forever, daemon=True).start()
    yield archive
    archive.shutdown()
    archive.server_close()


@pytest.fixture
def fetch_path(upstream, tmp_path, monkeypatch):
    """Return a function that requests a path and returns status, reason and body."""
    monkeypatch.setattr(server, "CONFIG_POLL_S", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/Packages").write_text("fake packages")
    config = tmp_path / "config.json"
    settings = {
        "addresses": ["127.0.0.1"],
        "port": port,
        "cache": str(tmp_path / "cache"),
        "proxy": "",
        "archives": {"debian": f"http://127.0.0.1:{upstream.server_port}/d"},
        "folders": {"fake": str(tmp_path / "repository")},
    }
    config.write_text(json.dumps(settings))
    serving = threading.Thread(target=server.serve_packages, args=[config], daemon=True)
    serving.start()

    def get(path, method="GET", **headers):
        deadline = time.monotonic() + 60
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request(method, path, headers=headers)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.reason, body

    yield get
    config.unlink()
    serving.join(timeout=60)
    assert not serving.is_alive()


def test_package_is_fetched_once(fetch_path):
    assert fetch_path("/debian/pool/a.deb") == fetch_path("/debian/pool/a.deb") == (200, "OK", b"a package")
    assert FakeArchive.requested_paths == ["/d/pool/a.deb"]


def test_index_is_revalidated_and_the_cached_copy_reused(fetch_path, monkeypatch):
    monkeypatch.setattr(server, "REVALIDATE_AFTER_S", -1)
    assert [fetch_path("/debian/InRelease")[2] for _ in range(2)] == [b"index", b"index"]
    assert len(FakeArchive.requested_paths) == 2


def test_current_index_is_answered_with_not_modified(fetch_path):
    assert fetch_path("/debian/InRelease", **{"If-Modified-Since": MODIFIED})[0] == 304


def test_concurrent_requests_cause_one_upstream_request(fetch_path):
    fetch_path("/fake/Packages")
    threads = [threading.Thread(target=fetch_path, args=["/debian/InRelease"]) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert FakeArchive.requested_paths == ["/d/InRelease"]


def test_response_to_head_has_no_body(fetch_path):
    assert fetch_path("/debian/pool/a.deb", "HEAD") == (200, "OK", b"")


def test_missing_file_returns_the_status_of_the_archive(fetch_path):
    status, reason, _ = fetch_path("/debian/pool/none.deb")
    assert status == 404
    assert reason.endswith("returned 404 Not Found")


def test_truncated_response_is_not_cached(fetch_path, monkeypatch, tmp_path):
    monkeypatch.setattr(FakeArchive, "missing_bytes", 3)
    assert fetch_path("/debian/pool/a.deb")[0] == 503
    monkeypatch.setattr(FakeArchive, "missing_bytes", 0)
    assert fetch_path("/debian/pool/a.deb")[2] == b"a package"
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_without_upstream_cached_files_are_served_and_others_return_503(fetch_path, upstream, monkeypatch):
    monkeypatch.setattr(server, "REVALIDATE_AFTER_S", -1)
    fetch_path("/debian/InRelease")
    upstream.shutdown()
    upstream.server_close()
    assert fetch_path("/debian/InRelease")[2] == b"index"
    status, reason, _ = fetch_path("/debian/pool/b.deb")
    assert status == 503
    assert "does not answer the rehearsal: " in reason
    assert "Connection refused" in reason


@pytest.mark.parametrize(
    "path",
    ["/fake/../config.json", "/fake/%2e%2e/config.json", "/fake//etc/passwd", "/", "/other/x"],
)
def test_other_paths_return_404(fetch_path, path):
    assert fetch_path(path)[0] == 404


def test_fake_repository_is_served_at_the_path_that_apt_requests(fetch_path):
    assert fetch_path("/fake/./Packages")[2] == b"fake packages"


def test_unused_files_expire(tmp_path):
    now = time.time()
    for name, days in (("old.deb", 90), ("new.deb", 5), (".x.part", 5)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (now - days * 86400, now))
    server.remove_expired_files(tmp_path, now)
    assert [path.name for path in tmp_path.iterdir()] == ["new.deb"]


def test_apt_on_a_host_uses_the_package_server(monkeypatch):
    sources = apt_config.apt_sources.parse_apt_sources(
        "deb http://deb.example/debian bookworm main\ndeb http://sec.example/debian-security bookworm-security main\n"
    )
    monkeypatch.setattr(apt_config.apt_sources, "read_system_apt_sources", lambda: sources)
    files = apt_config.build_apt_config_files("198.18.7.1", "bookworm")
    sources_text = files["etc/apt/sources.list.d/rehearsal.sources"]
    assert (
        "URIs: http://198.18.7.1:3180/debian\nSuites: bookworm\nComponents: main contrib non-free"
        in sources_text
    )
    assert "URIs: http://198.18.7.1:3180/debian-security\nSuites: bookworm-security\n" in sources_text
    assert "Trusted: yes" in files["etc/apt/sources.list.d/rehearsal-fake.sources"]


def test_machine_of_another_distribution_gets_debian_from_its_archive():
    assert [(a.name, a.uri) for a in apt_config.apt_sources.list_suite_archives("bookworm", [])] == [
        ("debian", "http://deb.debian.org/debian")
    ]

"""The rehearsal's package server: Debian's archive through a cache, and the stand-in repository.

Hosts have no way out. This program runs on the controller and answers on the racks' gateway addresses only. It
is one file of the standard library, started as ``python -I -S server.py CONFIG``; it ends when that file goes.

Files that never change (packages, indexes named by their hash) are fetched once. Others are asked for anew, and
the kept copy is given where the archive does not answer, so that an offline rehearsal still works.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FRESH_S = 30.0  # twenty hosts that ask for the same index at once cost one question
GIVEN_UP_S = 20.0  # an archive that did not answer is not asked again so soon
PATIENCE_S = 15.0
IDLE_S = 120.0
LOOK_S = 0.5
UNUSED_DAYS = 60
FOREVER = re.compile(r"\.deb$|/by-hash/")
PLAIN_PATH = re.compile(r"[A-Za-z0-9._+~:,=@-]+(/[A-Za-z0-9._+~:,=@-]+)*")


class UnansweredError(Exception):
    """The archive gave no answer; the words say why."""


class RefusedError(Exception):
    """The archive answered no, with a status and words of its own."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Archive:
    """One archive elsewhere and what is kept of it."""

    def __init__(self, uri: str, kept: Path, proxy: str) -> None:
        self.uri = uri.rstrip("/")
        self.kept = kept
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else {})
        )
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._asked: dict[str, float] = {}
        self._given_up: tuple[float, str] = (0.0, "")

    def get(self, path: str) -> Path:
        """Return a file of the archive, fetched when it is not kept or may have changed."""
        file = self.kept / path
        with self._locks[path]:
            known = file.is_file()
            if known and (
                FOREVER.search(path) or time.monotonic() - self._asked.get(path, -FRESH_S) < FRESH_S
            ):
                return file
            try:
                self._fetch(path, file, file.stat().st_mtime if known else None)
                self._asked[path] = time.monotonic()
            except UnansweredError as why:
                if not known:
                    raise
                print(f"kept copy of {path} given: {why}", flush=True)
        return file

    def _fetch(self, path: str, file: Path, since: float | None) -> None:
        until, why = self._given_up
        if time.monotonic() < until:
            raise UnansweredError(why)
        request = urllib.request.Request(  # noqa: S310 - the address is the machine's own apt's, file:// included
            f"{self.uri}/{path}", headers={"User-Agent": "gpufleet-rehearsal"}
        )
        if since is not None:
            request.add_header("If-Modified-Since", email.utils.formatdate(since, usegmt=True))
        try:
            with self._opener.open(request, timeout=PATIENCE_S) as answer:
                _keep(answer, file)
        except urllib.error.HTTPError as no:
            if no.code != HTTPStatus.NOT_MODIFIED:
                raise RefusedError(no.code, f"{self.uri} says {no.code} {no.reason}") from no
        except (OSError, EOFError) as silent:
            reason = getattr(silent, "reason", silent)
            said = f"{self.uri} does not answer the rehearsal: {reason}"
            if isinstance(silent, urllib.error.URLError):
                self._given_up = (time.monotonic() + GIVEN_UP_S, said)
            raise UnansweredError(said) from silent


def _keep(answer: Any, file: Path) -> None:
    """Write an answer beside its place and move it there once it is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=file.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as out:
            shutil.copyfileobj(answer, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())  # what is kept for ever must have outlived a power cut
        expected = answer.headers.get("Content-Length")
        if expected is not None and part.stat().st_size != int(expected):
            raise EOFError(f"{file.name} came in part: {part.stat().st_size} of {expected} bytes")
        changed = email.utils.parsedate_to_datetime(answer.headers["Last-Modified"]) if (
            answer.headers.get("Last-Modified")
        ) else None  # fmt: skip
        if changed:
            os.utime(part, (time.time(), changed.timestamp()))
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


class Handler(BaseHTTPRequestHandler):
    """Answers ``/ARCHIVE/PATH`` from an archive or from a local folder."""

    protocol_version = "HTTP/1.1"
    server_version = "gpufleet-rehearsal"
    timeout = IDLE_S
    archives: dict[str, Archive]
    folders: dict[str, Path]

    def do_GET(self) -> None:
        """Send a file, or the reason why there is none in the words of the status line, which apt shows."""
        try:
            file = self._find()
        except RefusedError as no:
            self._say(no.status, str(no))
        except UnansweredError as why:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(why))
        else:
            with contextlib.suppress(ConnectionError, TimeoutError):
                self._send(file)

    def do_HEAD(self) -> None:
        """As GET, without the file."""
        self.do_GET()

    def _find(self) -> Path:
        name, _, path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/").partition("/")
        path = path.removeprefix("./")  # apt's way to name files beside a flat repository's index
        if not PLAIN_PATH.fullmatch(path) or any(set(part) == {"."} for part in path.split("/")):
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such file")
        if name in self.archives:
            return self.archives[name].get(path)
        file = self.folders[name] / path if name in self.folders else None
        if file is None or not file.is_file():
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such file")
        return file

    def _send(self, file: Path) -> None:
        with file.open("rb") as content:
            facts = os.fstat(content.fileno())
            since = email.utils.parsedate_tz(self.headers.get("If-Modified-Since", ""))
            if since and email.utils.mktime_tz(since) >= int(facts.st_mtime):
                self._say(HTTPStatus.NOT_MODIFIED, "")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(facts.st_size))
            self.send_header("Last-Modified", email.utils.formatdate(facts.st_mtime, usegmt=True))
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(content, self.wfile, 1 << 20)
        with contextlib.suppress(OSError):
            os.utime(file, (time.time(), facts.st_mtime))

    def _say(self, status: int, words: str) -> None:
        plain = words.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
        self.send_response(status, plain or None)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            print(f"{self.path}: {plain}", flush=True)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Keep quiet about answers: the log is for what went wrong."""


def forget_unused(kept: Path, now: float) -> None:
    """Remove what nobody has asked for in a long time, and parts of what a killed server was fetching."""
    for file in kept.rglob("*"):
        with contextlib.suppress(OSError):
            age_days = (now - file.stat().st_atime) / 86400
            limit = 1 if file.suffix == ".part" else UNUSED_DAYS
            if file.is_file() and age_days > limit:
                file.unlink()


def serve(config: Path) -> None:
    """Answer on every address until the config file is gone or another takes its place."""
    facts = json.loads(config.read_text())
    mine = _identity(config)
    kept = Path(facts["cache"])
    forget_unused(kept, time.time())
    Handler.archives = {
        name: Archive(uri, kept / re.sub(r"[^A-Za-z0-9.-]+", "_", uri), facts["proxy"])
        for name, uri in facts["archives"].items()
    }
    Handler.folders = {name: Path(folder) for name, folder in facts["folders"].items()}
    servers = [_Server((address, facts["port"]), Handler) for address in facts["addresses"]]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving on {' '.join(facts['addresses'])} port {facts['port']}", flush=True)
    while _identity(config) == mine:
        time.sleep(LOOK_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Bind without asking what the address is called: a look-up of names may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - its signature is given
        """Say in one line what went wrong with one host's question."""
        wrong = sys.exc_info()[1]
        if not isinstance(wrong, ConnectionError | TimeoutError):
            print(f"{client_address[0]}: {type(wrong).__name__}: {wrong}", flush=True)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]))
    except OSError as wrong:
        sys.exit(f"{wrong.strerror or wrong}")

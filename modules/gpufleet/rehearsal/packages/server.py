"""The rehearsal's package server: Debian's archive through a cache, and the fake repository.

Hosts have no internet access. This program runs on the controller and listens on the racks' gateway addresses only.
It uses the standard library only, is started as ``python -I -S server.py CONFIG``, and ends when that file is removed.

Immutable files (packages, indexes named by their hash) are fetched once. Others are revalidated; if the archive
does not answer, the cached copy is served, so that an offline rehearsal still works.
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

REVALIDATE_AFTER_S = 30.0  # many hosts that request the same index cause one upstream request
RETRY_AFTER_S = 20.0  # after an archive did not answer
ARCHIVE_TIMEOUT_S = 15.0
IDLE_S = 120.0
CONFIG_POLL_S = 0.5
EXPIRE_AFTER_DAYS = 60
IMMUTABLE = re.compile(r"\.deb$|/by-hash/")
PLAIN_PATH = re.compile(r"[A-Za-z0-9._+~:,=@-]+(/[A-Za-z0-9._+~:,=@-]+)*")


class ArchiveUnreachableError(Exception):
    """The archive did not answer; the message has the reason."""


class ArchiveStatusError(Exception):
    """The archive answered with an HTTP status that is not a success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PackageArchiveCache:
    """One upstream archive and its cache."""

    def __init__(self, uri: str, cache: Path, proxy: str) -> None:
        self.uri = uri.rstrip("/")
        self.cache = cache
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else {})
        )
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._checked_at: dict[str, float] = {}
        self._unreachable_until: tuple[float, str] = (0.0, "")

    def fetch_file(self, path: str) -> Path:
        """Return a file of the archive; fetch it if it is not cached or may have changed."""
        file = self.cache / path
        with self._locks[path]:
            is_cached = file.is_file()
            if is_cached and (
                IMMUTABLE.search(path)
                or time.monotonic() - self._checked_at.get(path, -REVALIDATE_AFTER_S) < REVALIDATE_AFTER_S
            ):
                return file
            try:
                self._fetch(path, file, file.stat().st_mtime if is_cached else None)
                self._checked_at[path] = time.monotonic()
            except ArchiveUnreachableError as error:
                if not is_cached:
                    raise
                print(f"served the cached copy of {path}: {error}", flush=True)
        return file

    def _fetch(self, path: str, file: Path, cached_at: float | None) -> None:
        retry_at, unreachable_reason = self._unreachable_until
        if time.monotonic() < retry_at:
            raise ArchiveUnreachableError(unreachable_reason)
        request = urllib.request.Request(  # noqa: S310 - the address is the machine's own apt's, file:// included
            f"{self.uri}/{path}", headers={"User-Agent": "gpufleet-rehearsal"}
        )
        if cached_at is not None:
            request.add_header("If-Modified-Since", email.utils.formatdate(cached_at, usegmt=True))
        try:
            with self._opener.open(request, timeout=ARCHIVE_TIMEOUT_S) as response:
                _store_response(response, file)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_MODIFIED:
                raise ArchiveStatusError(
                    error.code, f"{self.uri} returned {error.code} {error.reason}"
                ) from error
        except (OSError, EOFError) as network_error:
            cause = getattr(network_error, "reason", network_error)
            message = f"{self.uri} does not answer the rehearsal: {cause}"
            if isinstance(network_error, urllib.error.URLError):
                self._unreachable_until = (time.monotonic() + RETRY_AFTER_S, message)
            raise ArchiveUnreachableError(message) from network_error


def _store_response(response: Any, file: Path) -> None:
    """Write a response to a partial file next to its target and rename it when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=file.parent)
    partial_file = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            shutil.copyfileobj(response, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())  # cached files must survive a power cut
        expected = response.headers.get("Content-Length")
        if expected is not None and partial_file.stat().st_size != int(expected):
            raise EOFError(f"{file.name} is incomplete: {partial_file.stat().st_size} of {expected} bytes")
        modified_at = email.utils.parsedate_to_datetime(response.headers["Last-Modified"]) if (
            response.headers.get("Last-Modified")
        ) else None  # fmt: skip
        if modified_at:
            os.utime(partial_file, (time.time(), modified_at.timestamp()))
        partial_file.replace(file)
    finally:
        partial_file.unlink(missing_ok=True)


class PackageRequestHandler(BaseHTTPRequestHandler):
    """Answers ``/ARCHIVE/PATH`` from an archive or from a local folder."""

    protocol_version = "HTTP/1.1"
    server_version = "gpufleet-rehearsal"
    timeout = IDLE_S
    archives: dict[str, PackageArchiveCache]
    folders: dict[str, Path]

    def do_GET(self) -> None:
        """Send a file, or an error status with the reason in the status line, which apt shows."""
        try:
            file = self._find_file()
        except ArchiveStatusError as error:
            self._send_status(error.status, str(error))
        except ArchiveUnreachableError as unreachable:
            self._send_status(HTTPStatus.SERVICE_UNAVAILABLE, str(unreachable))
        else:
            with contextlib.suppress(ConnectionError, TimeoutError):
                self._send_file(file)

    def do_HEAD(self) -> None:
        """Send the headers of GET without the file."""
        self.do_GET()

    def _find_file(self) -> Path:
        name, _, path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/").partition("/")
        path = path.removeprefix("./")  # apt's name for files of a flat repository
        if not PLAIN_PATH.fullmatch(path) or any(set(part) == {"."} for part in path.split("/")):
            raise ArchiveStatusError(HTTPStatus.NOT_FOUND, "no such file")
        if name in self.archives:
            return self.archives[name].fetch_file(path)
        file = self.folders[name] / path if name in self.folders else None
        if file is None or not file.is_file():
            raise ArchiveStatusError(HTTPStatus.NOT_FOUND, "no such file")
        return file

    def _send_file(self, file: Path) -> None:
        with file.open("rb") as content:
            status = os.fstat(content.fileno())
            modified_since = email.utils.parsedate_tz(self.headers.get("If-Modified-Since", ""))
            if modified_since and email.utils.mktime_tz(modified_since) >= int(status.st_mtime):
                self._send_status(HTTPStatus.NOT_MODIFIED, "")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(status.st_size))
            self.send_header("Last-Modified", email.utils.formatdate(status.st_mtime, usegmt=True))
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(content, self.wfile, 1 << 20)
        with contextlib.suppress(OSError):
            os.utime(file, (time.time(), status.st_mtime))

    def _send_status(self, status: int, reason: str) -> None:
        ascii_reason = reason.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
        self.send_response(status, ascii_reason or None)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            print(f"{self.path}: {ascii_reason}", flush=True)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Do not log successful requests: the log is for errors."""


def remove_expired_files(cache_folder: Path, now: float) -> None:
    """Remove files that were not requested for a long time, and partial files of a killed server."""
    for file in cache_folder.rglob("*"):
        with contextlib.suppress(OSError):
            age_days = (now - file.stat().st_atime) / 86400
            limit = 1 if file.suffix == ".part" else EXPIRE_AFTER_DAYS
            if file.is_file() and age_days > limit:
                file.unlink()


def serve_packages(config_file: Path) -> None:
    """Serve on every address until the config file is removed or replaced."""
    settings = json.loads(config_file.read_text())
    identity = _file_identity(config_file)
    cache = Path(settings["cache"])
    remove_expired_files(cache, time.time())
    PackageRequestHandler.archives = {
        name: PackageArchiveCache(uri, cache / re.sub(r"[^A-Za-z0-9.-]+", "_", uri), settings["proxy"])
        for name, uri in settings["archives"].items()
    }
    PackageRequestHandler.folders = {name: Path(folder) for name, folder in settings["folders"].items()}
    servers = [
        _Server((address, settings["port"]), PackageRequestHandler) for address in settings["addresses"]
    ]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving on {' '.join(settings['addresses'])} port {settings['port']}", flush=True)
    while _file_identity(config_file) == identity:
        time.sleep(CONFIG_POLL_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - an override
        """Log a failed request as one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"{client_address[0]}: {type(error).__name__}: {error}", flush=True)


def _file_identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


if __name__ == "__main__":
    try:
        serve_packages(Path(sys.argv[1]))
    except OSError as error:
        sys.exit(f"{error.strerror or error}")

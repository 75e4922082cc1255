"""Listen for Alertmanager's webhook: authenticated, bounded in size, time and rate.

Alertmanager sends a 5xx again at once with growing pauses, and 400, 404 and 429 at its next group_interval (0.25.0):
a registry that is not there answers 503, and too many messages 429.
"""

from __future__ import annotations

import hmac
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from gpufleet.boundary import read_text
from gpufleet.errors import GpufleetError, InputError
from gpufleet.operations.watch.alert import decode_alerts, take_alerts
from gpufleet.operations.watch.session import WatchSession

TOKEN_VARIABLE = "GPUFLEET_WATCH_TOKEN"  # noqa: S105 - the name of a variable
PATH = "/alerts"
MAX_BODY = 1 << 20
MAX_CONNECTIONS = 16
SECONDS = 10.0
"""How long a message may take to arrive."""
MESSAGES_PER_MINUTE = 120
SHORTEST_TOKEN = 16

Receive = Callable[[str], Mapping[str, int]]
"""Takes the text of a message, and returns how many alerts had which outcome."""


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return address and port of ``127.0.0.1:9099`` or ``[::1]:9099``; InputError for anything else."""
    host, _, port = text.rpartition(":")
    try:
        address = str(ip_address(host.removeprefix("[").removesuffix("]")))
        number = int(port)
    except ValueError:
        number, address = -1, ""
    if not 0 <= number <= 65535:  # noqa: PLR2004 - ports
        remedy = "write an IP address and a port: 127.0.0.1:9099"
        raise InputError(f"{text!r} is not an address to listen on", where="--listen", remedy=remedy)
    return address, number


def load_token(file: Path | None, address: str) -> str | None:
    """Return the bearer token of a file or of the environment; InputError where one is needed and there is none."""
    text = read_text(file) if file else os.environ.get(TOKEN_VARIABLE, "")
    token = text.strip()
    where = str(file) if file else TOKEN_VARIABLE
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(f"must have at least {SHORTEST_TOKEN} printable ASCII characters", where=where)
    if not token and (file or not ip_address(address).is_loopback):
        remedy = f"give --token-file or {TOKEN_VARIABLE}, or listen on 127.0.0.1"
        raise InputError("a token is needed to listen on this address", where="--listen", remedy=remedy)
    return token or None


class AlertServer(ThreadingHTTPServer):
    """The server; ``receive`` is called in a thread of its own for each message."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str | None, receive: Receive) -> None:
        import socket

        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.token, self.receive = token, receive
        self.slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.rate = RateLimit(MESSAGES_PER_MINUTE, 60.0)
        try:
            super().__init__(address, AlertHandler)
        except OSError as error:
            raise InputError(f"cannot listen: {error.strerror}", where="--listen") from None

    def process_request(self, request: object, client_address: object) -> None:
        """Serve a connection unless too many are open."""
        if not self.slots.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]  # the signature of the base class is wider
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self.slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that broke: whoever connects could fill the log."""


class RateLimit:
    """At most ``count`` calls in ``seconds``."""

    def __init__(self, count: int, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count, self._seconds, self._monotonic = count, seconds, monotonic
        self._times: list[float] = []
        self._lock = threading.Lock()

    def permits(self) -> bool:
        """Return True, and count the call, unless there were too many."""
        with self._lock:
            now = self._monotonic()
            self._times = [at for at in self._times if now - at < self._seconds]
            if len(self._times) >= self._count:
                return False
            self._times.append(now)
            return True


class AlertHandler(BaseHTTPRequestHandler):
    """One connection: POST /alerts, one message."""

    server: AlertServer
    server_version, sys_version = "gpufleet", ""

    def setup(self) -> None:
        """Close a connection that takes longer than SECONDS as a whole, however it drips."""
        super().setup()
        self.connection.settimeout(SECONDS)
        self._timer = threading.Timer(SECONDS, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def finish(self) -> None:
        self._timer.cancel()
        super().finish()

    def _cut(self) -> None:
        import contextlib
        import socket

        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of the base class
        """Log nothing: what came in is printed with the next cycle."""

    def do_POST(self) -> None:
        """Take one message."""
        status, answer = self._take()
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def _take(self) -> tuple[HTTPStatus, Mapping[str, object]]:
        if not self._is_authorized():
            return HTTPStatus.UNAUTHORIZED, {"error": "a bearer token is needed"}
        if self.path != PATH:
            return HTTPStatus.NOT_FOUND, {"error": f"the path is {PATH}"}
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {
                "error": f"needs a Content-Length of at most {MAX_BODY}"
            }
        if not self.server.rate.permits():
            return HTTPStatus.TOO_MANY_REQUESTS, {"error": "too many messages"}
        try:
            body = self.rfile.read(int(length))
        except OSError:
            body = b""
        if len(body) != int(length):
            return HTTPStatus.BAD_REQUEST, {"error": "the message is cut off"}
        try:
            return HTTPStatus.OK, dict(self.server.receive(body.decode("utf-8")))
        except (InputError, UnicodeDecodeError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except GpufleetError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}

    def _is_authorized(self) -> bool:
        if self.server.token is None:
            return True
        sent = self.headers.get("Authorization", "")
        return hmac.compare_digest(sent.encode("utf-8", "replace"), f"Bearer {self.server.token}".encode())


@contextmanager
def serve_alerts(
    session: WatchSession, address: tuple[str, int] | None, token: str | None
) -> Iterator[int | None]:
    """Listen while the block runs, and give the port; nothing without an address."""
    if address is None:
        yield None
        return
    server = AlertServer(address, token, lambda text: take_alerts(session, decode_alerts(text)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Ask exporters over HTTP: bounded in bytes and time, without redirects, proxies or cookies.

An exporter is a program on a node, and a node may lie: it may answer for ever, drip a byte a second, or send elsewhere.
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from gpufleet.boundary import Sample, decode_exposition, make_printable
from gpufleet.errors import InputError
from gpufleet.operations.monitoring_targets import bracket_address

MAX_BYTES = 16 << 20
"""Bytes of an answer. The largest recorded one (node_exporter's own test, every collector) has 0.3 MB."""
CHUNK = 1 << 16
PATH = "/metrics"


@dataclass(frozen=True)
class ScrapeTarget:
    """An exporter of a node: ``address`` is an IP address or host name, ``scheme`` http or https."""

    node_id: str
    exporter: str
    address: str
    port: int
    scheme: str = "http"


@dataclass(frozen=True)
class ScrapeResult:
    """What a target answered; ``problem`` says in a line why there are no samples."""

    target: ScrapeTarget
    samples: tuple[Sample, ...] | None = None
    problem: str = ""


@dataclass(frozen=True)
class ScrapeOptions:
    """Bounds and credentials. ``seconds`` is the whole of one answer."""

    seconds: float = 10.0
    max_parallel: int = 64
    max_bytes: int = MAX_BYTES
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


class ScrapeError(Exception):
    """Why an exporter has no answer, in a line."""


def scrape_targets(
    targets: Sequence[ScrapeTarget],
    metrics: Callable[[str], Collection[str]],
    options: ScrapeOptions,
) -> list[ScrapeResult]:
    """Ask every target, ``max_parallel`` at the same time, for the metrics that ``metrics`` gives for its exporter."""
    if not targets:
        return []
    with ThreadPoolExecutor(max_workers=min(options.max_parallel, len(targets))) as pool:
        return list(
            pool.map(lambda target: scrape_target(target, metrics(target.exporter), options), targets)
        )


def scrape_target(target: ScrapeTarget, names: Collection[str], options: ScrapeOptions) -> ScrapeResult:
    """Ask one target; anything that goes wrong is its ``problem``."""
    try:
        text = fetch_metrics(target, options)
        return ScrapeResult(target, tuple(decode_exposition(text, f"{target.exporter} exporter", names)))
    except (OSError, ScrapeError, http.client.HTTPException, InputError, ValueError) as error:
        reason = (
            "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        )
        return ScrapeResult(target, problem=make_printable(reason, 160))


def fetch_metrics(target: ScrapeTarget, options: ScrapeOptions) -> str:
    """Return the text of an exporter; ScrapeError, OSError or HTTPException where it has none."""
    deadline = time.monotonic() + options.seconds
    with socket.create_connection((target.address, target.port), options.seconds) as plain:
        connection: socket.socket = plain
        if target.scheme == "https":
            plain.settimeout(_count_seconds_left(deadline))
            context = options.tls or ssl.create_default_context()
            connection = context.wrap_socket(plain, server_hostname=target.address)
        with connection:
            connection.settimeout(_count_seconds_left(deadline))
            connection.sendall(_build_request(target, options))
            content = _receive(connection, deadline, options.max_bytes)
    return _read_response(content)


def _count_seconds_left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _build_request(target: ScrapeTarget, options: ScrapeOptions) -> bytes:
    headers = {
        "Host": f"{bracket_address(target.address)}:{target.port}",
        "Accept": "text/plain;version=0.0.4",
        "Accept-Encoding": "identity",
        "User-Agent": "gpufleet-watch",
        "Connection": "close",
        **options.headers,
    }
    lines = [f"GET {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _receive(connection: socket.socket, deadline: float, max_bytes: int) -> bytes:
    """Return all that comes until the end of the connection."""
    parts: list[bytes] = []
    size = 0
    while True:
        connection.settimeout(_count_seconds_left(deadline))
        part = connection.recv(CHUNK)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > max_bytes:
            raise ScrapeError(f"the answer has more than {max_bytes:,} bytes")
        parts.append(part)


class _ReceivedAnswer:
    """The bytes of an answer, as ``http.client`` reads a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


def _read_response(content: bytes) -> str:
    response = http.client.HTTPResponse(_ReceivedAnswer(content))  # type: ignore[arg-type]  # needs makefile only
    response.begin()
    if response.status != HTTPStatus.OK:
        kind = (
            "a redirect, which is not followed"
            if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST
            else "an error"
        )
        raise ScrapeError(f"HTTP status {response.status}: {kind}")
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise ScrapeError("the answer is compressed, which was not asked for")
    body = response.read()
    if body and not body.endswith(b"\n"):
        raise ScrapeError("the answer is cut off: its last line has no end")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise ScrapeError("the answer is not UTF-8") from None


def build_login_headers(username: str, password_file: Path | None) -> dict[str, str]:
    """Return the header of HTTP basic authentication, with the first line of a file as the password."""
    if not username or password_file is None:
        return {}
    from gpufleet.boundary import read_text

    password = read_text(password_file).partition("\n")[0].strip()
    token = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}

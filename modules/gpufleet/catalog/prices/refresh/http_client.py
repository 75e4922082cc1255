"""An HTTPS client for GET with limits on tries, time and size: whole documents, and streams of large files.

It retries after a missing or dropped connection, throttling, a server error, or a page that is not JSON.
``Retry-After`` is honoured up to ``MAX_WAIT_S``; a longer wait ends the request. Messages name host and path, never the
query or the headers, which may contain keys.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from gpufleet.boundary import LARGE_DOCUMENT, decode_json, make_printable
from gpufleet.catalog.prices.refresh.source import RequestRejected, SourceUnavailable
from gpufleet.errors import InputError

MAX_TRIES = 6
CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TOTAL_TIMEOUT_S = 10.0, 60.0, 180.0
MAX_WAIT_S = 120.0
MAX_BODY_BYTES = LARGE_DOCUMENT.bytes  # a page of Google's SKUs has about 10 MB
CHUNK_BYTES = 1024 * 1024
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
HTTP_OK, HTTP_PARTIAL = 200, 206
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
MAX_STREAM_BYTES = 8 * 1024**3  # Amazon's largest price file of a region has less than one
STREAM_TIMEOUT_S = 3600.0
REPORTED_STREAM_BYTES = 64 * 1024**2  # progress is reported after each


class _RetryableError(Exception):
    """A response that is worth another try; ``wait_s`` is what the server asked for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass
class StreamPosition:
    """How far a download is: the bytes that were handed over, the file's version, and its size if stated."""

    offset: int = 0
    tag: str = ""
    total: int = 0

    def build_range_headers(self) -> dict[str, str]:
        """Return the headers that continue the same version of the file; raise if it states no version."""
        if not self.offset:
            return {}
        if not self.tag:
            raise SourceUnavailable("the connection dropped, and the file states no version to continue")
        return {"Range": f"bytes={self.offset}-", "If-Range": self.tag}

    def format_total(self) -> str:
        """Return the size for a progress line."""
        return f" of {self.total // 1024**2}" if self.total else ""


@dataclass
class HttpClient:
    """A client for GET. Tests replace ``sleep`` and ``clock``.

    ``max_redirects`` is for documents whose content is verified and whose request has no key.
    """

    tries: int = MAX_TRIES
    max_redirects: int = 0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    report: Callable[[str], None] = lambda _: None
    _pools: dict[str, urllib3.PoolManager] = field(default_factory=dict)

    def get_json(
        self, url: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at a URL."""
        document: dict[str, Any] = self._request_with_retries(url, query, headers, _decode_object)
        return document

    def get_bytes(self, url: str) -> bytes:
        """Return the bytes at a URL."""
        get_bytes: bytes = self._request_with_retries(url, None, None, bytes)
        return get_bytes

    def stream_bytes(self, url: str) -> Iterator[bytes]:
        """Yield the bytes at a URL in chunks; a dropped connection continues where it ended.

        A file that changed in between cannot be continued: the source is unavailable until the next call.
        """
        position, attempt, deadline = StreamPosition(), 0, self.clock() + STREAM_TIMEOUT_S
        endpoint = _format_endpoint(url)
        while True:
            offset_before = position.offset
            try:
                yield from self._stream_once(url, endpoint, position, deadline)
            except _RetryableError as error:
                attempt = 1 if position.offset > offset_before else attempt + 1
                if attempt >= self.tries:
                    raise SourceUnavailable(f"{endpoint}: {error} ({attempt} tries)") from None
                self._wait_before_retry(error, attempt, endpoint)
            else:
                return

    def _stream_once(
        self, url: str, endpoint: str, position: StreamPosition, deadline: float
    ) -> Iterator[bytes]:
        response = self._open_response(url, position.build_range_headers())
        try:
            self._check_stream_response(response, endpoint, position)
            while chunk := _read_chunk(response):
                before = position.offset
                position.offset += len(chunk)
                if position.offset > MAX_STREAM_BYTES:
                    raise SourceUnavailable(f"{endpoint}: sends more than the size limit")
                if self.clock() > deadline:
                    raise SourceUnavailable(f"{endpoint}: needs more than {STREAM_TIMEOUT_S:.0f} s")
                if before // REPORTED_STREAM_BYTES < position.offset // REPORTED_STREAM_BYTES:
                    self.report(f"{endpoint}: {position.offset // 1024**2} MiB{position.format_total()}")
                yield chunk
        finally:
            response.close()

    def _check_stream_response(
        self, response: urllib3.BaseHTTPResponse, endpoint: str, position: StreamPosition
    ) -> None:
        if response.status in RETRYABLE_STATUSES:
            raise _RetryableError(
                f"HTTP {response.status}", parse_retry_after_seconds(response.headers.get("Retry-After"))
            )
        if response.status not in {HTTP_OK, HTTP_PARTIAL}:
            raise RequestRejected(f"{endpoint}: HTTP {response.status}")
        if position.offset and response.status != HTTP_PARTIAL:
            raise SourceUnavailable(f"{endpoint}: the file changed during the download")
        if not position.offset:
            length = response.headers.get("Content-Length", "")
            position.tag = response.headers.get("ETag", "")
            position.total = int(length) if length.isascii() and length.isdecimal() else 0

    def _open_response(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        for _ in range(self.max_redirects):
            response = self._open_one_response(url, headers)
            location = response.headers.get("Location", "")
            if response.status not in REDIRECT_STATUSES or not location:
                return response
            response.close()
            url = urljoin(url, location)
            if urlsplit(url).scheme not in ("http", "https"):
                raise RequestRejected(f"{make_printable(location, 80)}: is not an address of HTTP")
        return self._open_one_response(url, headers)

    def _open_one_response(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            return self._choose_pool(url).request(
                "GET",
                url,
                headers=dict(headers),
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                retries=False,  # this class retries: a bad page counts as well, and the wait is bounded
                redirect=False,  # a key must not travel to another host
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise _RetryableError(_describe_error(error)) from None

    def _request_with_retries(
        self,
        url: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        read: Callable[[bytes], Any],
    ) -> Any:
        full_url = f"{url}?{urlencode(query)}" if query else url
        endpoint = _format_endpoint(url)
        for attempt in range(1, self.tries + 1):
            try:
                return read(self._request_once(full_url, headers or {}, endpoint))
            except _RetryableError as error:
                if attempt == self.tries:
                    raise SourceUnavailable(f"{endpoint}: {error} ({attempt} tries)") from None
                self._wait_before_retry(error, attempt, endpoint)
        raise AssertionError  # the last attempt returns or raises

    def _wait_before_retry(self, error: _RetryableError, attempt: int, endpoint: str) -> None:
        wait_s = error.wait_s if error.wait_s is not None else 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
        if wait_s > MAX_WAIT_S:
            raise SourceUnavailable(
                f"{endpoint}: {error}, and asks for a wait of {wait_s:.0f} s",
                hint="run the command again after that time",
            )
        self.report(f"{endpoint}: {error}; retrying in {wait_s:.0f} s")
        self.sleep(wait_s)

    def _request_once(self, url: str, headers: Mapping[str, str], endpoint: str) -> bytes:
        deadline = self.clock() + TOTAL_TIMEOUT_S
        response = self._open_response(url, headers)
        try:
            content = self._read_body(response, deadline)
        except urllib3.exceptions.HTTPError as error:
            raise _RetryableError(_describe_error(error)) from None
        if response.status in RETRYABLE_STATUSES:
            raise _RetryableError(
                f"HTTP {response.status}", parse_retry_after_seconds(response.headers.get("Retry-After"))
            )
        if response.status != HTTP_OK:
            raise RequestRejected(f"{endpoint}: HTTP {response.status}{_read_error_message(content)}")
        return content

    def _read_body(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        body = bytearray()
        try:
            while chunk := response.read(CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise _RetryableError("sends more than the size limit")
                if self.clock() > deadline:
                    raise _RetryableError(f"needs more than {TOTAL_TIMEOUT_S:.0f} s for one page")
        finally:
            response.release_conn() if not response.closed else None
        return bytes(body)

    def _choose_pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme, "")
        if proxy and parts.hostname and proxy_bypass(parts.hostname):
            proxy = ""
        if proxy not in self._pools:
            self._pools[proxy] = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()
        return self._pools[proxy]


def _format_endpoint(url: str) -> str:
    return "{0.scheme}://{0.netloc}{0.path}".format(urlsplit(url))


def _read_chunk(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except urllib3.exceptions.HTTPError as error:
        raise _RetryableError(_describe_error(error)) from None


def parse_retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds in ``Retry-After`` (a number or a date), None if missing or unreadable."""
    if not header:
        return None
    if header.strip().isdecimal():
        return float(header.strip())
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _decode_object(content: bytes) -> dict[str, Any]:
    try:
        document = decode_json(content, "a page", LARGE_DOCUMENT)
    except InputError:
        raise _RetryableError("a page that is not JSON") from None
    if not isinstance(document, dict):
        raise _RetryableError("a page that is not a JSON object")
    return document


def _describe_error(error: urllib3.exceptions.HTTPError) -> str:
    """Return the kind of error without the URLs in urllib3's messages."""
    if isinstance(error, urllib3.exceptions.NewConnectionError):  # a subclass of urllib3's TimeoutError
        return "no connection"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "the connection dropped"
    return type(error).__name__


def _read_error_message(content: bytes) -> str:
    """Return the message of a JSON error response (Google and Microsoft send these), or an empty text."""
    try:
        error = decode_json(content, "a refusal")["error"]
        return f": {make_printable(str(error['message']).splitlines()[0], 200)}"
    except (ValueError, KeyError, TypeError, IndexError):
        return ""

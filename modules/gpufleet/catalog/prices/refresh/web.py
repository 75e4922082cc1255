"""GET over HTTPS, and nothing else: bounded in tries, time and size, patient where it is asked to wait.

What is worth another try is tried again: no connection, one that drops in the middle, throttling, a server's
fault, a page that is no JSON. ``Retry-After`` is honoured up to ``LONGEST_WAIT_S``; who asks for more is left alone.
Messages name host and path, never the query or the headers: keys may stand there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from gpufleet.boundary import LARGE_DOCUMENT, decode_json, printable
from gpufleet.catalog.prices.refresh.feed import Refused, Unreachable
from gpufleet.errors import InputError

TRIES = 6
CONNECT_S, READ_S, WHOLE_S = 10.0, 60.0, 180.0
LONGEST_WAIT_S = 120.0
ENOUGH = LARGE_DOCUMENT.bytes  # a page of Google's SKUs has some 10 MB
PIECE = 1024 * 1024
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
OK = 200


class _Flawed(Exception):  # noqa: N818 - never leaves this file
    """An answer that may be better the next time; ``wait`` is what the server asked for."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass
class Web:
    """A client. ``sleep`` and ``clock`` are the world's, unless a test says otherwise."""

    tries: int = TRIES
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda _: None
    _pools: dict[str, urllib3.PoolManager] = field(default_factory=dict)

    def json(
        self, url: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at an address."""
        found: dict[str, Any] = self._retried(url, query, headers, _object)
        return found

    def content(self, url: str) -> bytes:
        """Return the bytes at an address."""
        found: bytes = self._retried(url, None, None, bytes)
        return found

    def _retried(
        self,
        url: str,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        read: Callable[[bytes], Any],
    ) -> Any:
        whole = f"{url}?{urlencode(query)}" if query else url
        place = "{0.scheme}://{0.netloc}{0.path}".format(urlsplit(url))
        for tried in range(1, self.tries + 1):
            try:
                return read(self._once(whole, headers or {}, place))
            except _Flawed as flaw:
                if tried == self.tries:
                    raise Unreachable(f"{place}: {flaw} ({tried} tries)") from None
                self._pause(flaw, tried, place)
        raise AssertionError  # the last try returns or raises

    def _pause(self, flaw: _Flawed, tried: int, place: str) -> None:
        wait = flaw.wait if flaw.wait is not None else 2 ** (tried - 1) * random.uniform(0.75, 1.25)
        if wait > LONGEST_WAIT_S:
            raise Unreachable(f"{place}: {flaw}, and asks to wait {wait:.0f} s", hint="run it again then")
        self.say(f"{place}: {flaw}; again in {wait:.0f} s")
        self.sleep(wait)

    def _once(self, url: str, headers: Mapping[str, str], place: str) -> bytes:
        end = self.clock() + WHOLE_S
        try:
            answer = self._pool(url).request(
                "GET",
                url,
                headers=dict(headers),
                timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
                retries=False,  # ours: a bad page counts as well, and the wait is bounded
                redirect=False,  # a key must not travel to another host
                preload_content=False,
            )
            content = self._whole(answer, end)
        except urllib3.exceptions.HTTPError as error:
            raise _Flawed(_reason(error)) from None
        if answer.status in AGAIN:
            raise _Flawed(f"HTTP {answer.status}", retry_after(answer.headers.get("Retry-After")))
        if answer.status != OK:
            raise Refused(f"{place}: HTTP {answer.status}{_said(content)}")
        return content

    def _whole(self, answer: urllib3.BaseHTTPResponse, end: float) -> bytes:
        found = bytearray()
        try:
            while piece := answer.read(PIECE):
                found += piece
                if len(found) > ENOUGH:
                    raise _Flawed("sends more than a page of prices can be")
                if self.clock() > end:
                    raise _Flawed(f"needs more than {WHOLE_S:.0f} s for one page")
        finally:
            answer.release_conn() if not answer.closed else None
        return bytes(found)

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme, "")
        if proxy and parts.hostname and proxy_bypass(parts.hostname):
            proxy = ""
        if proxy not in self._pools:
            self._pools[proxy] = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()
        return self._pools[proxy]


def retry_after(said: str | None, now: datetime | None = None) -> float | None:
    """Read ``Retry-After``: seconds or a date. None where there is none, or nothing readable."""
    if not said:
        return None
    if said.strip().isdecimal():
        return float(said.strip())
    try:
        until = parsedate_to_datetime(said)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = decode_json(content, "a page", LARGE_DOCUMENT)
    except InputError:
        raise _Flawed("a page that is no JSON") from None
    if not isinstance(found, dict):
        raise _Flawed("a page that is no JSON object")
    return found


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """Say what went wrong without the addresses that urllib3 puts in its messages."""
    if isinstance(error, urllib3.exceptions.NewConnectionError):  # which urllib3 counts among the timeouts
        return "no connection"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "the connection dropped"
    return type(error).__name__


def _said(content: bytes) -> str:
    """Return what a refusal says, as far as it is JSON with a message (Google's and Microsoft's are)."""
    try:
        error = decode_json(content, "a refusal")["error"]
        return f": {printable(str(error['message']).splitlines()[0], 200)}"
    except (ValueError, KeyError, TypeError, IndexError):
        return ""

"""HTTPS with JSON and patience: waits as long as a server asks, within bounds, and never follows a redirect."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any

from gpufleet import __version__
from gpufleet.boundary import Limits, decode_json, printable
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

TRIES = 5
LONGEST_WAIT_S = 120.0  # of all waits together: a CI job is billed by the minute
TIMEOUT_S = 30.0
ANSWER = Limits(bytes=8 << 20)  # a page of a hundred comments has some 200 KB
MOST = ANSWER.bytes + 1
PASSING = frozenset({429, 500, 502, 503, 504})


class Refused(GpufleetError):  # noqa: N818 - an answer of the server's, which the caller may live with
    """The token may not do this: CI gives forks one that only reads."""

    exit_code = 3


@dataclass(frozen=True)
class Answer:
    """What a server said: its JSON, its headers in lower case, and after how many tries."""

    status: int
    headers: Mapping[str, str]
    body: Any
    tries: int = 1


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Hand a redirect over as an error: following one would give the token to whoever it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass
class Client:
    """One API: its address and the headers that each request carries."""

    base: str
    headers: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep
    waited: float = 0.0

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request, again where the trouble passes; return what came, or raise what it means."""
        for attempt in range(1, TRIES + 1):
            answer = self._once(method, path, body)
            if answer is not None and not _passes(answer):
                return _judged(Answer(answer.status, answer.headers, answer.body, attempt), method, path)
            if attempt < TRIES:
                self._wait(_asked_wait(answer, attempt))
        told = f"HTTP {answer.status}" if answer else "no answer"
        raise EnvironmentFault(
            f"{method} {self.base}{path} failed {TRIES} times: {told}", hint="run it again"
        )

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer | None:
        """Send it once; None where no answer came."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "User-Agent": f"gpufleet/{__version__}",
            "Content-Type": "application/json",
            **self.headers,
        }
        request = urllib.request.Request(f"{self.base}{path}", data, headers, method=method)  # noqa: S310 - the base is checked
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as came:
                return _read(came.status, came.headers, came.read(MOST))
        except urllib.error.HTTPError as error:
            with error:
                return _read(error.code, error.headers, error.read(MOST))
        except (OSError, HTTPException):
            return None

    def _wait(self, seconds: float) -> None:
        if self.waited + seconds > LONGEST_WAIT_S:
            raise EnvironmentFault(
                f"{self.base} asks to wait {seconds:.0f} s more, longer than we do", hint="run it again later"
            )
        self.waited += seconds
        self.sleep(seconds)


def _read(status: int, headers: Any, text: bytes) -> Answer:
    try:
        body = decode_json(text, "the answer", ANSWER) if text.strip() else None
    except InputError:
        body = None
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)


def _passes(answer: Answer) -> bool:
    """Tell whether asking again later may help. GitHub says 403 for rate limits as well."""
    limited = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    return answer.status in PASSING or (answer.status == 403 and limited)  # noqa: PLR2004 - HTTP's own numbers


def _asked_wait(answer: Answer | None, attempt: int) -> float:
    """Return how long the server asks to wait; twice as long each time where it does not say."""
    headers = answer.headers if answer else {}
    now = datetime.now(UTC).timestamp()
    if told := headers.get("retry-after"):
        if told.strip().isdecimal():
            return float(told)
        try:
            return max(0.0, parsedate_to_datetime(told).timestamp() - now)
        except ValueError:
            pass
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
    if reset.isdecimal() and answer and answer.status in (403, 429):
        return max(1.0, float(reset) - now)
    return float(2 ** (attempt - 1))


def _judged(answer: Answer, method: str, path: str) -> Answer:
    status, said = answer.status, _message(answer.body)
    if status < 300:  # noqa: PLR2004 - HTTP's own numbers
        return answer
    told = f"{method} {path}: {status} {said}".rstrip()
    if status < 400:  # noqa: PLR2004
        raise InputError(f"{told}: it has moved", where="--repo", remedy="give the name it has now")
    if status == 401:  # noqa: PLR2004
        raise EnvironmentFault(f"{told}: the token is not accepted", hint="make a new one")
    if status == 403:  # noqa: PLR2004
        raise Refused(told)
    if status == 404:  # noqa: PLR2004
        raise InputError(told, where="--repo, --pr", remedy="check both, and that the token may read them")
    raise EnvironmentFault(told)


def _message(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    errors = body.get("errors")
    told = [str(body.get("message") or body.get("error") or "")]
    told += (
        [str(each.get("message", "")) for each in errors if isinstance(each, dict)]
        if isinstance(errors, list)
        else []
    )
    return printable("; ".join(part for part in told if part))

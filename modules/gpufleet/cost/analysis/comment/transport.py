"""JSON over HTTPS with retries: wait as long as a server asks, within a limit, and follow no redirect."""

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
from gpufleet.boundary import DocumentLimits, decode_json, make_printable
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

TRIES = 5
MAX_WAIT_S = 120.0  # total of all waits: a CI job is billed by the minute
TIMEOUT_S = 30.0
RESPONSE_LIMITS = DocumentLimits(bytes=8 << 20)  # a page of a hundred comments has some 200 KB
READ_BYTES = RESPONSE_LIMITS.bytes + 1
SIGN_IN_PAGE = (
    203  # Azure DevOps answers a token that it does not know with a page, or with a redirect to one
)
TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})


class PermissionDenied(GpufleetError):  # noqa: N818 - an answer of the server's, which the caller may live with
    """The token lacks the permission: CI gives forks a read-only token."""

    exit_code = 3


@dataclass(frozen=True)
class ApiResponse:
    """A response: its JSON, its headers in lower case, and the number of tries."""

    status: int
    headers: Mapping[str, str]
    body: Any
    tries: int = 1


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Report a redirect as an error: following it would send the token to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass
class ApiClient:
    """One API: its base address and the headers of each request."""

    base: str
    headers: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep
    waited_s: float = 0.0

    def send_request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> ApiResponse:
        """Send a request with retries; return the response or raise the matching error."""
        for attempt in range(1, TRIES + 1):
            response = self._send_once(method, path, body)
            if response is not None and not _is_transient(response):
                return _raise_for_status(
                    ApiResponse(response.status, response.headers, response.body, attempt), method, path
                )
            if attempt < TRIES:
                self._wait(_wait_seconds(response, attempt))
        outcome = f"HTTP {response.status}" if response else "no answer"
        raise EnvironmentFault(
            f"{method} {self.base}{path} failed {TRIES} times: {outcome}", hint="run it again"
        )

    def _send_once(self, method: str, path: str, body: Mapping[str, Any] | None) -> ApiResponse | None:
        """Send a request once; return None without a response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "User-Agent": f"gpufleet/{__version__}",
            "Content-Type": "application/json",
            **self.headers,
        }
        request = urllib.request.Request(f"{self.base}{path}", data, headers, method=method)  # noqa: S310 - the base is checked
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as http_response:
                return _parse_response(
                    http_response.status, http_response.headers, http_response.read(READ_BYTES)
                )
        except urllib.error.HTTPError as error:
            with error:
                return _parse_response(error.code, error.headers, error.read(READ_BYTES))
        except (OSError, HTTPException):
            return None

    def _wait(self, seconds: float) -> None:
        if self.waited_s + seconds > MAX_WAIT_S:
            raise EnvironmentFault(
                f"{self.base} asks to wait {seconds:.0f} s more, longer than the limit",
                hint="run it again later",
            )
        self.waited_s += seconds
        self.sleep(seconds)


def _parse_response(status: int, headers: Any, text: bytes) -> ApiResponse:
    try:
        body = decode_json(text, "the answer", RESPONSE_LIMITS) if text.strip() else None
    except InputError:
        body = None
    return ApiResponse(status, {name.lower(): value for name, value in headers.items()}, body)


def _is_transient(response: ApiResponse) -> bool:
    """Return whether a retry may help. GitHub uses 403 for rate limits too."""
    is_rate_limited = (
        "retry-after" in response.headers or response.headers.get("x-ratelimit-remaining") == "0"
    )
    return response.status in TRANSIENT_STATUSES or (response.status == 403 and is_rate_limited)  # noqa: PLR2004 - HTTP's own numbers


def _wait_seconds(response: ApiResponse | None, attempt: int) -> float:
    """Return the wait that the server asks for, else an exponential backoff."""
    headers = response.headers if response else {}
    now = datetime.now(UTC).timestamp()
    if retry_after := headers.get("retry-after"):
        if retry_after.strip().isdecimal():
            return float(retry_after)
        try:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now)
        except ValueError:
            pass
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
    if reset.isdecimal() and response and response.status in (403, 429):
        return max(1.0, float(reset) - now)
    return float(2 ** (attempt - 1))


def _raise_for_status(response: ApiResponse, method: str, path: str) -> ApiResponse:
    status, message = response.status, _error_message(response.body)
    if status < 300 and status != SIGN_IN_PAGE:  # noqa: PLR2004 - HTTP's own numbers
        return response
    problem = f"{method} {path}: {status} {message}".rstrip()
    if status == SIGN_IN_PAGE or "_signin" in response.headers.get("location", ""):
        raise EnvironmentFault(
            f"{problem}: the server asks to sign in, the token is not accepted", hint="create a new token"
        )
    if status < 400:  # noqa: PLR2004
        raise InputError(
            f"{problem}: the repository has moved", where="--repo", remedy="use its current name"
        )
    if status == 401:  # noqa: PLR2004
        raise EnvironmentFault(f"{problem}: the token is not accepted", hint="create a new token")
    if status == 403:  # noqa: PLR2004
        raise PermissionDenied(problem)
    if status == 404:  # noqa: PLR2004
        raise InputError(problem, where="--repo, --pr", remedy="check both, and that the token may read them")
    raise EnvironmentFault(problem)


def _error_message(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    errors, error = body.get("errors"), body.get("error")
    inner = error.get("message") if isinstance(error, dict) else error
    parts = [str(body.get("message") or inner or "")]
    parts += (
        [str(each.get("message", "")) for each in errors if isinstance(each, dict)]
        if isinstance(errors, list)
        else []
    )
    return make_printable("; ".join(part for part in parts if part))

# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The metadata services in which AWS, Google Cloud and Azure announce that they take a machine back.

Sources, read 2026-11-23: AWS, "Spot Instance interruption notices" and "EC2 instance rebalance recommendations";
Google, "Create and use Spot VMs" and "Query VM metadata"; Azure, "Scheduled Events for Linux VMs". Standard library
only, Python 3.9 or newer: the service gpufleet-spot-notice runs a copy of this file on hosts.
"""

from __future__ import annotations

import email.utils
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

AWS_TOKEN_SECONDS = 21600  # AWS's longest
AZURE_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
AZURE_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
AZURE_SECONDS = 130.0  # the first answer may take two minutes
AZURE_KINDS = {"Preempt": "preempt", "Terminate": "terminate"}
GCP_WAIT_SECONDS = 60
GCP_NOTICE_SECONDS = 30  # Google gives no time; the machine has up to 30 seconds
MAX_ANSWER_BYTES = 1_000_000
FINAL_SECONDS = 5.0  # for a question that must not wait
HTTP_OK, HTTP_UNAUTHORIZED, HTTP_NOT_FOUND = 200, 401, 404


class MetadataError(Exception):
    """The metadata service does not answer, or answers what its documentation does not have."""


@dataclass(frozen=True)
class Notice:
    """An announcement. ``kind`` is preempt, terminate or rebalance; ``deadline`` is in seconds since 1970."""

    kind: str
    id: str
    action: str
    deadline: float | None


class NoticeSource(Protocol):
    """A cloud's metadata service."""

    def poll(self, *, may_wait: bool) -> list[Notice]: ...

    def acknowledge(self, notice: Notice) -> None: ...


class MetadataClient:
    """Requests to one metadata service: no proxy, no redirect, a bounded answer."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    def request(
        self, method: str, path: str, headers: dict[str, str], seconds: float = 5.0, body: bytes | None = None
    ) -> tuple[int, str, dict[str, str]]:
        """Return status, text and headers (lower case); an error status is not an exception."""
        request = urllib.request.Request(  # noqa: S310 - the address is the operator's
            self.address + path, data=body, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                text = answer.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
                return answer.status, text, {key.lower(): value for key, value in answer.headers.items()}
        except urllib.error.HTTPError as error:
            return error.code, "", {}
        except (OSError, ValueError) as error:
            raise MetadataError(f"{self.address} does not answer: {error}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_keywords: Any) -> None:
        return None


class AwsSource:
    """AWS's instance metadata, version 2: every request needs a token."""

    def __init__(self, client: MetadataClient) -> None:
        self.client, self._token, self._renew_at = client, "", 0.0

    def poll(self, *, may_wait: bool) -> list[Notice]:  # noqa: ARG002 - AWS has no request that waits
        notices = []
        action = self._get("/latest/meta-data/spot/instance-action")
        if action is not None:
            at = str(action.get("time", ""))
            notices.append(Notice("preempt", at, str(action.get("action", "")), parse_iso_time(at)))
        rebalance = self._get("/latest/meta-data/events/recommendations/rebalance")
        if rebalance is not None:
            notices.append(Notice("rebalance", str(rebalance.get("noticeTime", "")), "rebalance", None))
        return notices

    def acknowledge(self, notice: Notice) -> None:
        """Do nothing: AWS does not wait for anybody."""

    def _get(self, path: str) -> dict[str, Any] | None:
        for _attempt in range(2):
            headers = {"X-aws-ec2-metadata-token": self._current_token()}
            status, text, _headers = self.client.request("GET", path, headers)
            if status != HTTP_UNAUTHORIZED:  # else the token is not valid any more
                break
            self._token = ""
        if status == HTTP_NOT_FOUND:  # no notice
            return None
        return parse_object(path, status, text)

    def _current_token(self) -> str:
        if not self._token or time.monotonic() > self._renew_at:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(AWS_TOKEN_SECONDS)}
            status, text, _headers = self.client.request("PUT", "/latest/api/token", headers)
            require_success("/latest/api/token", status)
            self._token, self._renew_at = text.strip(), time.monotonic() + AWS_TOKEN_SECONDS / 2
        return self._token


class GcpSource:
    """Google's metadata server, which answers when the value changes."""

    def __init__(self, client: MetadataClient) -> None:
        self.client, self._etag, self._noticed_at = client, "", 0.0

    def poll(self, *, may_wait: bool) -> list[Notice]:
        path, seconds = "/computeMetadata/v1/instance/preempted", FINAL_SECONDS
        if may_wait and self._etag:
            path += f"?wait_for_change=true&timeout_sec={GCP_WAIT_SECONDS}&last_etag={urllib.parse.quote(self._etag)}"
            seconds += GCP_WAIT_SECONDS
        status, text, headers = self.client.request("GET", path, {"Metadata-Flavor": "Google"}, seconds)
        require_success(path, status)
        if headers.get("metadata-flavor") != "Google" or text.strip() not in ("TRUE", "FALSE"):
            raise MetadataError(f"{path} is not an answer of Google's metadata server: {text[:60]!r}")
        self._etag = headers.get("etag", "")
        if text.strip() == "FALSE":
            return []
        self._noticed_at = self._noticed_at or time.time()
        return [Notice("preempt", "preempted", "terminate", self._noticed_at + GCP_NOTICE_SECONDS)]

    def acknowledge(self, notice: Notice) -> None:
        """Do nothing: Google does not wait for anybody."""


class AzureSource:
    """Azure's scheduled events. Other machines of a scale set may be named in them too."""

    HEADERS = {"Metadata": "true"}  # noqa: RUF012 - never changed

    def __init__(self, client: MetadataClient) -> None:
        self.client, self._name = client, ""

    def poll(self, *, may_wait: bool) -> list[Notice]:
        seconds = AZURE_SECONDS if may_wait else FINAL_SECONDS
        if not self._name:
            status, text, _headers = self.client.request("GET", AZURE_NAME, self.HEADERS, seconds)
            require_success(AZURE_NAME, status)
            self._name = text.strip()
        status, text, _headers = self.client.request("GET", AZURE_EVENTS, self.HEADERS, seconds)
        events = parse_object(AZURE_EVENTS, status, text).get("Events") or []
        return [
            Notice(
                AZURE_KINDS[event["EventType"]],
                str(event.get("EventId", "")),
                str(event["EventType"]).lower(),
                parse_http_time(str(event.get("NotBefore") or "")),
            )
            for event in events
            if event.get("EventType") in AZURE_KINDS and self._name in (event.get("Resources") or [])
        ]

    def acknowledge(self, notice: Notice) -> None:
        """Tell Azure that the machine is drained; it need not wait for the rest of the notice."""
        body = json.dumps({"StartRequests": [{"EventId": notice.id}]}).encode()
        status, _text, _headers = self.client.request("POST", AZURE_EVENTS, self.HEADERS, FINAL_SECONDS, body)
        require_success(AZURE_EVENTS, status)


SOURCES: dict[str, Callable[[MetadataClient], NoticeSource]] = {
    "aws": AwsSource,
    "gcp": GcpSource,
    "azure": AzureSource,
}


def require_success(path: str, status: int) -> None:
    """Raise MetadataError unless the status is 200."""
    if status != HTTP_OK:
        raise MetadataError(f"{path} answers with status {status}")


def parse_object(path: str, status: int, text: str) -> dict[str, Any]:
    """Return the JSON object of an answer."""
    require_success(path, status)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MetadataError(f"{path} is not a JSON object: {text[:60]!r}")
    return value


def parse_iso_time(text: str) -> float | None:
    """Return the time of AWS's form 2026-11-23T08:22:00Z, None for any other."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None


def parse_http_time(text: str) -> float | None:
    """Return the time of Azure's form "Mon, 19 Sep 2016 18:29:47 GMT", None for any other."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None

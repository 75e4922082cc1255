"""The metadata services of AWS, Google Cloud and Azure, as far as spot notices need them, for tests.

Written from the vendors' documentation, read 2026-11-23: AWS, "Use IMDSv2" (token by PUT with a lifetime of 1 to 21600
seconds; 401 without a valid one; 403 if the request has X-Forwarded-For), "Spot Instance interruption notices", "EC2
instance rebalance recommendations" (404 without one); Google, "Query VM metadata" (403 without Metadata-Flavor: Google
or with X-Forwarded-For; wait_for_change, last_etag, timeout_sec; the answer has Metadata-Flavor and ETag); Azure,
"Scheduled Events for Linux VMs" (400 without Metadata: true, for a malformed body or an unknown event; api-version is
mandatory) and "Instance Metadata Service" (400 with X-Forwarded-For).

Usage: metadata_emulator.py PORT STATE. STATE is a JSON file read at each request; `acknowledged` is added to it.
Standard library only: it also runs on booted hosts.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

TOKEN = "AQAEAExample-token=="
MAX_TOKEN_SECONDS = 21600
NAME = "spot-1"
QUIET = {
    "action": None,
    "rebalance": None,
    "preempted": "FALSE",
    "events": [],
    "token": TOKEN,
    "acknowledged": [],
}


class MetadataHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(self.find_answer())

    def do_PUT(self):
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if "X-Forwarded-For" in self.headers:
            self.answer((403, ""))
        elif self.path != "/latest/api/token":
            self.answer((404, ""))
        elif not seconds.isdecimal() or not 1 <= int(seconds) <= MAX_TOKEN_SECONDS:
            self.answer((400, ""))
        else:
            self.answer((200, self.state["token"]))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer((self.start_events(body), ""))

    def find_answer(self):
        if self.path.startswith("/latest/"):
            return self.answer_aws()
        if self.path.startswith("/computeMetadata/v1/"):
            return self.answer_gcp()
        if self.path.startswith("/metadata/"):
            return self.answer_azure()
        return 404, ""

    def answer_aws(self):
        if self.headers.get("X-aws-ec2-metadata-token") != self.state["token"]:
            return 401, ""
        documents = {
            "/latest/meta-data/spot/instance-action": self.state["action"],
            "/latest/meta-data/events/recommendations/rebalance": self.state["rebalance"],
        }
        document = documents.get(self.path)
        return (404, "") if document is None else (200, json.dumps(document))

    def answer_gcp(self):
        if self.headers.get("Metadata-Flavor") != "Google" or "X-Forwarded-For" in self.headers:
            return 403, ""
        parts = urlsplit(self.path)
        if parts.path != "/computeMetadata/v1/instance/preempted":
            return 404, ""
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        end = time.monotonic() + float(query.get("timeout_sec", 3600))
        while query.get("wait_for_change") == "true" and query.get("last_etag") == self.etag:
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        return 200, self.state["preempted"], {"Metadata-Flavor": "Google", "ETag": self.etag}

    def answer_azure(self):
        if not self.is_azure_request:
            return 400, ""
        path = urlsplit(self.path).path
        if path == "/metadata/instance/compute/name":
            return 200, NAME
        if path != "/metadata/scheduledevents":
            return 404, ""
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": self.state["events"]})

    def start_events(self, body):
        """Approve events; return the status."""
        if urlsplit(self.path).path != "/metadata/scheduledevents" or not self.is_azure_request:
            return 400
        try:
            ids = [request["EventId"] for request in json.loads(body)["StartRequests"]]
        except (ValueError, KeyError, TypeError):
            return 400
        state = self.state
        if not set(ids) <= {event["EventId"] for event in state["events"]}:
            return 400
        for event in state["events"]:
            if event["EventId"] in ids:
                event.update(EventStatus="Started", NotBefore="")
        write_state(self.server.state_file, {**state, "acknowledged": [*state["acknowledged"], *ids]})
        return 200

    @property
    def is_azure_request(self):
        has_version = "api-version" in parse_qs(urlsplit(self.path).query)
        return (
            self.headers.get("Metadata") == "true" and "X-Forwarded-For" not in self.headers and has_version
        )

    @property
    def state(self):
        return {**QUIET, **json.loads(self.server.state_file.read_text())}

    @property
    def etag(self):
        return hashlib.sha256(self.state["preempted"].encode()).hexdigest()[:16]

    def answer(self, parts):
        status, text, headers = (*parts, {})[:3]
        body = text.encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def write_state(file, state):
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(state))
    temporary.replace(file)


class MetadataEmulator:
    """A server on loopback in a thread."""

    def __init__(self, state_file, port=0):
        self.state_file = Path(state_file)
        if not self.state_file.exists():
            write_state(self.state_file, QUIET)
        self.server = ThreadingHTTPServer(("127.0.0.1", port), MetadataHandler)
        self.server.daemon_threads = True
        self.server.state_file = self.state_file
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def announce(self, **values):
        write_state(self.state_file, {**self.state, **values})

    @property
    def state(self):
        return {**QUIET, **json.loads(self.state_file.read_text())}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    MetadataEmulator(sys.argv[2], int(sys.argv[1])).server.serve_forever()

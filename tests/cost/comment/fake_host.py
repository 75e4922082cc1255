"""Fakes of two code hosts on loopback, made from the documentation of their REST APIs.

GitHub: docs.github.com, "REST API endpoints for issue comments" and "Rate limits for the REST API", version
2022-11-28. GitLab: docs.gitlab.com, "Notes API" and "REST API", version 4. Read in stored copies of 2026-11-21.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class FakeHost:
    """A server of comments. ``script`` holds answers to give before the real ones: (status, headers, body)."""

    def __init__(self, login, page_size=100):
        self.login, self.page_size = login, page_size
        self.comments, self.asked, self.script = [], [], []
        self.head, self.lose_next_answer, self.may_write = "a" * 40, False, True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                outer.serve(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 - the base class's names

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)

    def add(self, author, body):
        number = 1000 + len(self.comments)
        self.comments.append({"id": number, "author": author, "body": body})
        return number

    def serve(self, request):
        size = int(request.headers.get("Content-Length") or 0)
        sent = json.loads(request.rfile.read(size)) if size else None
        parts = urlsplit(request.path)
        self.asked.append((request.command, parts.path, dict(request.headers), sent))
        if self.script:
            status, headers, body = self.script.pop(0)
        else:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status, headers, body = self.answer(request.command, parts.path, query, sent)
        if self.lose_next_answer and request.command == "POST":
            self.lose_next_answer = False
            request.close_connection = True
            request.connection.close()
            return
        text = b"" if body is None else json.dumps(body).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(text)

    def page(self, query):
        number, size = int(query.get("page", 1)), min(int(query.get("per_page", 20)), self.page_size)
        rows = self.comments[(number - 1) * size : number * size]
        return rows, number, number * size < len(self.comments)

    def find(self, number):
        return next((comment for comment in self.comments if comment["id"] == int(number)), None)


class FakeGitHub(FakeHost):
    repo, number, branch = "acme/fleet", 7, "stranger:change"

    def record(self, row):
        url = f"https://github.invalid/{self.repo}/pull/{self.number}#issuecomment-{row['id']}"
        return {"id": row["id"], "html_url": url, "body": row["body"], "user": {"login": row["author"]}}

    def answer(self, method, path, query, sent):
        thread = f"/repos/{self.repo}/issues/{self.number}/comments"
        match = re.fullmatch(f"/repos/{self.repo}/issues/comments/(\\d+)", path)
        if (method, path) == ("GET", "/user"):
            error_body = {"message": "Resource not accessible by integration"}
            return (403, {}, error_body) if self.login.endswith("[bot]") else (200, {}, {"login": self.login})
        if (method, path) == ("GET", f"/repos/{self.repo}/pulls"):
            pull_requests = (
                [{"number": self.number, "head": {"sha": self.head}}]
                if query.get("head") == self.branch
                else []
            )
            return 200, {}, pull_requests
        if (method, path) == ("GET", f"/repos/{self.repo}/pulls/{self.number}"):
            return 200, {}, {"head": {"sha": self.head}}
        if (method, path) == ("GET", thread):
            rows, number, more = self.page(query)
            link = f'<{self.address}{path}?page={number + 1}>; rel="next", <{self.address}>; rel="last"'
            return 200, {"Link": link} if more else {}, [self.record(row) for row in rows]
        if not self.may_write:
            return 403, {}, {"message": "Resource not accessible by integration", "status": "403"}
        if (method, path) == ("POST", thread):
            return 201, {}, self.record(self.find(self.add(self.login, sent["body"])))
        if match and (row := self.find(match[1])):
            if method == "DELETE":
                self.comments.remove(row)
                return 204, {}, None
            row["body"] = sent["body"]
            return 200, {}, self.record(row)
        return 404, {}, {"message": "Not Found"}


class FakeGitLab(FakeHost):
    repo, number = "acme/platform/fleet", 7

    def record(self, row):
        return {"id": row["id"], "body": row["body"], "author": {"username": row["author"]}, "system": False}

    def answer(self, method, path, query, sent):
        request = f"/api/v4/projects/{self.repo}/merge_requests/{self.number}"
        path = unquote(path)
        match = re.fullmatch(f"{request}/notes/(\\d+)", path)
        if (method, path) == ("GET", "/api/v4/user"):
            return 200, {}, {"username": self.login}
        if (method, path) == ("GET", request):
            return 200, {}, {"sha": self.head}
        if (method, path) == ("GET", f"{request}/notes"):
            rows, number, more = self.page(query)
            return 200, {"X-Next-Page": str(number + 1) if more else ""}, [self.record(row) for row in rows]
        if not self.may_write:
            return 403, {}, {"message": "403 Forbidden"}
        if (method, path) == ("POST", f"{request}/notes"):
            return 201, {}, self.record(self.find(self.add(self.login, sent["body"])))
        if match and (row := self.find(match[1])):
            if method == "DELETE":
                self.comments.remove(row)
                return 204, {}, None
            row["body"] = sent["body"]
            return 200, {}, self.record(row)
        return 404, {}, {"message": "404 Not found"}

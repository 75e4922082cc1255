"""Fakes of four code hosts on loopback, made from the documentation of their REST APIs.

GitHub: docs.github.com, "REST API endpoints for issue comments" and "Rate limits for the REST API", version
2022-11-28. GitLab: docs.gitlab.com, "Notes API" and "REST API", version 4. Read in stored copies of 2026-11-21.

Azure Repos: learn.microsoft.com, "Pull Request Threads" (Create, List), "Pull Request Thread Comments" (Update,
Delete), "Pull Requests - Get", version 7.1, and "REST API versioning" (each request names a version). Its permission
error TF401027 is quoted in many public repositories. Bitbucket: developer.atlassian.com, "Pullrequests" and "Users" of
the REST API 2.0; the text of its 403 likewise. Read in stored copies of 2026-11-23. Both refuse a wrong token.
"""

from __future__ import annotations

import base64
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
        refusal = self.refuse(request.command, urlsplit(request.path), request.headers, sent)
        if self.script:
            status, headers, body = self.script.pop(0)
        elif refusal:
            status, headers, body = refusal
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

    def refuse(self, method, parts, headers, sent):
        """Return the answer to a request that the host does not accept, None otherwise."""

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


GUID = "0f7c1d2e-0000-4000-8000-000000000001"


class FakeAzureRepos(FakeHost):
    """An organization of Azure DevOps with one pull request. Each of ``comments`` is a thread's first comment."""

    repo, number, token = f"GPU Fleet/{GUID}", 7, "t0ken"
    not_found = (404, {}, {"message": "TF401180: The requested pull request was not found."})

    def refuse(self, method, parts, headers, sent):
        basic = "Basic " + base64.b64encode(f":{self.token}".encode()).decode()
        if headers.get("Authorization") not in (f"Bearer {self.token}", basic):
            return 203, {"Content-Type": "text/html"}, "<html>Sign In</html>"
        if "api-version=7.1" not in parts.query:
            return 400, {}, {"message": f'No api-version was supplied for the "{method}" request.'}
        if sent is not None and headers.get("Content-Type") != "application/json":
            return 415, {}, {"message": "The request entity's media type is not supported for this resource."}
        return None

    def record(self, row):
        author = {"id": row["author"], "displayName": "a name that anyone may take"}
        comment = {
            "id": 1,
            "parentCommentId": 0,
            "author": author,
            "content": row["body"],
            "commentType": "text",
        }
        return {"id": row["id"], "status": "closed", "isDeleted": False, "comments": [comment]}

    def answer(self, method, path, query, sent):
        request = f"/_apis/git/repositories/{GUID}/pullRequests/{self.number}"
        project, _, rest = unquote(path).removeprefix("/").partition("/")
        if (method, path) == ("GET", "/_apis/connectionData"):
            if not query["api-version"].startswith("7.1-preview"):
                return 400, {}, {"message": "The -preview flag must be supplied in the api-version."}
            return 200, {}, {"authenticatedUser": {"id": self.login, "providerDisplayName": "Build Service"}}
        rest = f"/{rest}"
        if project != "GPU Fleet":
            return 404, {}, {"message": "TF200016: The following project does not exist."}
        if (method, rest) == ("GET", request):
            return 200, {}, {"lastMergeSourceCommit": {"commitId": self.head}}
        if (method, rest) == ("GET", f"{request}/threads"):
            deleted = {"id": 1, "isDeleted": True, "comments": [{"id": 1, "isDeleted": True, "content": ""}]}
            threads = [deleted, *map(self.record, self.comments)]
            return 200, {}, {"value": threads[::-1], "count": len(threads)}
        if not rest.startswith(request):
            return self.not_found
        if not self.may_write:
            text = "TF401027: You need the Git 'PullRequestContribute' permission to perform this action."
            return 403, {}, {"message": text}
        if (method, rest) == ("POST", f"{request}/threads"):
            (comment,) = sent["comments"]
            assert (comment["parentCommentId"], comment["commentType"], sent["status"]) == (0, 1, "closed")
            return 200, {}, self.record(self.find(self.add(self.login, comment["content"])))
        match = re.fullmatch(rf"{request}/threads/(\d+)/comments/1", rest)
        row = self.find(match[1]) if match else None
        if row is None:
            return 404, {}, {"message": "TF401349: The comment thread does not exist."}
        if method == "DELETE":
            self.comments.remove(row)
            return 200, {}, None
        row["body"] = sent["content"]
        return 200, {}, self.record(row)["comments"][0]


class FakeBitbucket(FakeHost):
    """Bitbucket Cloud with one pull request."""

    repo, number, token = "acme/fleet", 7, "t0ken"

    def refuse(self, method, parts, headers, sent):
        basic = "Basic " + base64.b64encode(f"me@example.org:{self.token}".encode()).decode()
        if headers.get("Authorization") not in (f"Bearer {self.token}", basic):
            message = "Token is invalid, expired, or not supported for this endpoint."
            return 401, {}, {"type": "error", "error": {"message": message}}
        if sent is not None and headers.get("Content-Type") != "application/json":
            return 400, {}, {"type": "error", "error": {"message": "Bad request"}}
        return None

    def record(self, row):
        url = f"https://bitbucket.invalid/{self.repo}/pull-requests/{self.number}#comment-{row['id']}"
        user = {"uuid": row["author"], "nickname": "a name that anyone may take"}
        return {
            "id": row["id"],
            "content": {"raw": row["body"], "markup": "markdown"},
            "user": user,
            "deleted": False,
            "links": {"html": {"href": url}},
        }

    def answer(self, method, path, query, sent):
        request = f"/2.0/repositories/{self.repo}/pullrequests/{self.number}"
        denied = {"message": "Your credentials lack one or more required privilege scopes."}
        if (method, path) == ("GET", "/2.0/user"):
            is_bot = self.login == "{access-token}"  # a repository's token has no account to read
            return (403, {}, {"error": denied}) if is_bot else (200, {}, {"uuid": self.login})
        if (method, path) == ("GET", request):
            return 200, {}, {"source": {"commit": {"hash": self.head[:12]}}}
        if (method, path) == ("GET", f"{request}/comments"):
            rows, number, more = self.page(
                {"page": query.get("page", 1), "per_page": query.get("pagelen", 10)}
            )
            values = [self.record(row) for row in rows]
            if number == 1:
                values = [{"id": 1, "deleted": True, "content": {"raw": ""}, "user": None}, *values]
            link = {"next": f"https://elsewhere.invalid/2.0/?page={number + 1}"} if more else {}
            return 200, {}, {"values": values, "page": number, **link}
        if not path.startswith(request):
            return 404, {}, {"type": "error", "error": {"message": f"Repository {self.repo} not found"}}
        if not self.may_write:
            return 403, {}, {"type": "error", "error": denied}
        if (method, path) == ("POST", f"{request}/comments"):
            return 201, {}, self.record(self.find(self.add(self.login, sent["content"]["raw"])))
        match = re.fullmatch(rf"{request}/comments/(\d+)", path)
        row = self.find(match[1]) if match else None
        if row is None:
            return 404, {}, {"type": "error", "error": {"message": "Not found"}}
        if method == "DELETE":
            self.comments.remove(row)
            return 204, {}, None
        row["body"] = sent["content"]["raw"]
        return 200, {}, self.record(row)

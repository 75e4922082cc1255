"""Comments on a GitLab merge request, by the REST API's notes (version 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gpufleet.cost.analysis.comment.target import Place
from gpufleet.cost.analysis.comment.transport import Client
from gpufleet.cost.analysis.comment.upsert import PAGES, PER_PAGE, Comment


@dataclass
class GitLab:
    """The notes of one merge request."""

    client: Client
    place: Place

    @classmethod
    def at(cls, place: Place) -> GitLab:
        """Speak to the API that the place names. A job's own token may not write notes: it takes another."""
        return cls(Client(place.api, {"PRIVATE-TOKEN": place.token}), place)

    @property
    def _request(self) -> str:
        return f"/projects/{quote(self.place.repo, safe='')}/merge_requests/{self.place.number}"

    def author(self) -> str:
        """Return the name that this token writes under."""
        return self.place.author or str(self.client.ask("GET", "/user").body["username"])

    def comments(self) -> Iterator[Comment]:
        """Give every comment that a person or a bot wrote, the oldest first."""
        page = "1"
        for _ in range(PAGES):
            path = f"{self._request}/notes?sort=asc&order_by=created_at&per_page={PER_PAGE}&page={page}"
            answer = self.client.ask("GET", path)
            for each in answer.body or []:
                if not each.get("system"):
                    yield _comment(each)
            page = answer.headers.get("x-next-page", "")
            if not page.isdecimal():
                return

    def create(self, body: str) -> tuple[Comment, int]:
        """Write a note; return it and how many tries it took."""
        answer = self.client.ask("POST", f"{self._request}/notes", {"body": body})
        return _comment(answer.body), answer.tries

    def update(self, comment: Comment, body: str) -> None:
        """Put another text in a note's place."""
        self.client.ask("PUT", f"{self._request}/notes/{comment.id}", {"body": body})

    def delete(self, comment: Comment) -> None:
        """Remove a note."""
        self.client.ask("DELETE", f"{self._request}/notes/{comment.id}")

    def head(self) -> str:
        """Return the commit that the merge request is at."""
        return str(self.client.ask("GET", self._request).body["sha"])


def _comment(record: dict[str, Any]) -> Comment:
    author = record.get("author") or {}
    return Comment(int(record["id"]), str(author.get("username", "")), str(record.get("body") or ""))

"""Comments on a GitHub pull request, by the REST API's issue comments (version 2022-11-28)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gpufleet.cost.analysis.comment.target import Place
from gpufleet.cost.analysis.comment.transport import Client, Refused
from gpufleet.cost.analysis.comment.upsert import PAGES, PER_PAGE, Comment
from gpufleet.errors import InputError

ACTIONS = "github-actions[bot]"  # whose name the token of a workflow writes under; it may not ask for it


@dataclass
class GitHub:
    """The comments of one pull request."""

    client: Client
    place: Place

    @classmethod
    def at(cls, place: Place) -> GitHub:
        """Speak to the API that the place names."""
        headers = {
            "Authorization": f"Bearer {place.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return cls(Client(place.api, headers), place)

    def author(self) -> str:
        """Return the name that this token writes under."""
        if self.place.author:
            return self.place.author
        try:
            return str(self.client.ask("GET", "/user").body["login"])
        except Refused:
            return ACTIONS

    def comments(self) -> Iterator[Comment]:
        """Give every comment, the oldest first."""
        for page in range(1, PAGES + 1):
            path = f"/repos/{self.place.repo}/issues/{self.place.number}/comments?per_page={PER_PAGE}&page={page}"
            answer = self.client.ask("GET", path)
            for each in answer.body or []:
                yield _comment(each)
            if 'rel="next"' not in answer.headers.get("link", ""):
                return

    def create(self, body: str) -> tuple[Comment, int]:
        """Write a comment; return it and how many tries it took."""
        path = f"/repos/{self.place.repo}/issues/{self.place.number}/comments"
        answer = self.client.ask("POST", path, {"body": body})
        return _comment(answer.body), answer.tries

    def update(self, comment: Comment, body: str) -> None:
        """Put another text in a comment's place."""
        self.client.ask("PATCH", f"/repos/{self.place.repo}/issues/comments/{comment.id}", {"body": body})

    def delete(self, comment: Comment) -> None:
        """Remove a comment."""
        self.client.ask("DELETE", f"/repos/{self.place.repo}/issues/comments/{comment.id}")

    def find_number(self, head: str, head_sha: str) -> int:
        """Return the open pull request from ``head`` (OWNER:BRANCH) that is at a commit.

        Raise InputError unless there is exactly one: the number is never taken from the request's own artifacts.
        """
        path = f"/repos/{self.place.repo}/pulls?state=open&per_page={PER_PAGE}&head={quote(head, safe='')}"
        requests = self.client.ask("GET", path).body or []
        numbers = [int(each["number"]) for each in requests if each["head"]["sha"] == head_sha]
        if len(numbers) != 1:
            problem = f"{len(numbers)} open pull requests are at {head_sha[:12]}"
            raise InputError(problem, where="--head", remedy="it moved on, or give --pr")
        return numbers[0]

    def head(self) -> str:
        """Return the commit that the pull request is at."""
        found = self.client.ask("GET", f"/repos/{self.place.repo}/pulls/{self.place.number}").body
        return str(found["head"]["sha"])


def _comment(record: dict[str, Any]) -> Comment:
    user = record.get("user") or {}
    return Comment(
        int(record["id"]),
        str(user.get("login", "")),
        str(record.get("body") or ""),
        str(record.get("html_url", "")),
    )
